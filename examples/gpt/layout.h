// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/shampoo.h"

namespace gpt {

constexpr std::int64_t vocabulary = 256;  ///< tokens are bytes

struct Size {
  std::int64_t layers = 4, width = 128, heads = 4, context = 64;
};

/// The tensors of GPT-2 in the order of llm.c's parameter memory, with a head of its own.
enum class Part : std::uint8_t {
  wte,
  wpe,
  ln_1_weight,
  ln_1_bias,
  c_attn_weight,
  c_attn_bias,
  attn_c_proj_weight,
  attn_c_proj_bias,
  ln_2_weight,
  ln_2_bias,
  c_fc_weight,
  c_fc_bias,
  mlp_c_proj_weight,
  mlp_c_proj_bias,
  ln_f_weight,
  ln_f_bias,
  lm_head
};

/// One tensor of all layers: those of the layers lie in the slab back to back.
struct Stack {
  std::string name;                 ///< of one layer, behind "h.3."
  std::vector<std::int64_t> shape;  ///< of one layer
  bool per_layer;
  std::int64_t first;     ///< element of the slab
  std::int64_t elements;  ///< of one layer, which is the stride from layer to layer
};

/// Where everything lies in the slab of parameters, and in that of gradients.
class Layout {
 public:
  /// Throws std::invalid_argument unless all sizes are at least 1 and heads divide the width.
  explicit Layout(const Size& size);

  const Size& size() const { return size_; }
  std::int64_t elements() const { return elements_; }

  /// First element of a tensor of a layer.
  std::int64_t at(Part part, std::int64_t layer = 0) const {
    const Stack& stack = stacks_[static_cast<std::size_t>(part)];
    return stack.first + layer * stack.elements;
  }

  /// Calls visit(name, shape, first element) for every tensor of every layer, in their order.
  /// That is what an optimizer should see: a stack as one tensor {layers, 3 width, width} would get
  /// a factor across the layers.
  template <typename Visitor>
  void for_each_tensor(Visitor&& visit) const {
    for (const Stack& stack : stacks_)
      for (std::int64_t layer = 0; layer < (stack.per_layer ? size_.layers : 1); ++layer)
        visit((stack.per_layer ? "h." + std::to_string(layer) + "." : "") + stack.name, stack.shape,
              stack.first + layer * stack.elements);
  }

 private:
  void add(std::string_view name, bool per_layer, std::vector<std::int64_t> shape);

  Size size_;
  std::vector<Stack> stacks_;
  std::int64_t elements_ = 0;
};

/// Normally distributed with deviation 0.02, about; less in front of residuals [GPT-2]; gains 1,
/// biases 0. A function of layout and seed.
void initialise(const Layout& layout, std::uint64_t seed, std::vector<float>& values);

}  // namespace gpt
