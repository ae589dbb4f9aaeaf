// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpt2_slab {

struct Size {
  std::int64_t layers = 12, width = 768, vocabulary = 50304, context = 1024;
};

/// Who should train a tensor like whom.
enum class Kind { embedding, matrix, vector };

/// A tensor of the slab. That of a layer stands there once for every layer, back to back.
struct StackedTensor {
  std::string_view name;
  Kind kind = Kind::vector;
  bool per_layer = false;
  std::vector<std::int64_t> shape;  ///< of one layer
};

/// The tensors of GPT-2 in the order of llm.c's parameter memory.
std::vector<StackedTensor> stacked_tensors(const Size& size);

/// One tensor of one layer, as an optimizer should see it.
struct LayerTensor {
  std::string name;  ///< "h.3.attn.c_attn.weight"
  Kind kind = Kind::vector;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< of its first element in the slab
  std::int64_t elements = 0;
};

/// Every tensor of every layer, cut out of the slab.
std::vector<LayerTensor> layer_tensors(const Size& size);

/// Elements of the slab.
std::int64_t elements_of(const std::vector<LayerTensor>& tensors);

}  // namespace gpt2_slab
