// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt2_slab/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace gpt2_slab {

std::vector<StackedTensor> stacked_tensors(const Size& size) {
  const std::int64_t c = size.width;
  using enum Kind;
  return {{"wte.weight", embedding, false, {size.vocabulary, c}},
          {"wpe.weight", embedding, false, {size.context, c}},
          {"ln_1.weight", vector, true, {c}},
          {"ln_1.bias", vector, true, {c}},
          {"attn.c_attn.weight", matrix, true, {3 * c, c}},
          {"attn.c_attn.bias", vector, true, {3 * c}},
          {"attn.c_proj.weight", matrix, true, {c, c}},
          {"attn.c_proj.bias", vector, true, {c}},
          {"ln_2.weight", vector, true, {c}},
          {"ln_2.bias", vector, true, {c}},
          {"mlp.c_fc.weight", matrix, true, {4 * c, c}},
          {"mlp.c_fc.bias", vector, true, {4 * c}},
          {"mlp.c_proj.weight", matrix, true, {c, 4 * c}},
          {"mlp.c_proj.bias", vector, true, {c}},
          {"ln_f.weight", vector, false, {c}},
          {"ln_f.bias", vector, false, {c}}};
}

std::vector<LayerTensor> layer_tensors(const Size& size) {
  std::vector<LayerTensor> tensors;
  std::int64_t offset = 0;
  for (const StackedTensor& stacked : stacked_tensors(size)) {
    const std::int64_t elements = std::accumulate(stacked.shape.begin(), stacked.shape.end(),
                                                  std::int64_t{1}, std::multiplies<>());
    for (std::int64_t layer = 0; layer < (stacked.per_layer ? size.layers : 1); ++layer) {
      const std::string prefix = stacked.per_layer ? "h." + std::to_string(layer) + "." : "";
      tensors.push_back(
          {prefix + std::string(stacked.name), stacked.kind, stacked.shape, offset, elements});
      offset += elements;
    }
  }
  return tensors;
}

std::int64_t elements_of(const std::vector<LayerTensor>& tensors) {
  return tensors.empty() ? 0 : tensors.back().offset + tensors.back().elements;
}

}  // namespace gpt2_slab
