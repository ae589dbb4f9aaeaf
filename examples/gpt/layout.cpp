// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/layout.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "examples/fashion/random.h"

namespace gpt {

namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Mean 0 and deviation 1: a sum of four numbers that are uniform in [-1/2, 1/2), over its own
/// deviation sqrt(4 / 12).
float bell(fashion::Random& random) {
  double sum = -2;
  for (int i = 0; i < 4; ++i) sum += random.uniform();
  return static_cast<float>(sum * 1.7320508075688772);
}

}  // namespace

Layout::Layout(const Size& size) : size_(size) {
  if (std::min({size.layers, size.width, size.heads, size.context}) < 1 ||
      size.width % size.heads != 0)
    throw std::invalid_argument(
        "gpt::Size: layers, width, heads and context must be at least 1, and heads divide width");
  const std::int64_t c = size.width;
  add("wte.weight", false, {vocabulary, c});
  add("wpe.weight", false, {size.context, c});
  add("ln_1.weight", true, {c});
  add("ln_1.bias", true, {c});
  add("attn.c_attn.weight", true, {3 * c, c});
  add("attn.c_attn.bias", true, {3 * c});
  add("attn.c_proj.weight", true, {c, c});
  add("attn.c_proj.bias", true, {c});
  add("ln_2.weight", true, {c});
  add("ln_2.bias", true, {c});
  add("mlp.c_fc.weight", true, {4 * c, c});
  add("mlp.c_fc.bias", true, {4 * c});
  add("mlp.c_proj.weight", true, {c, 4 * c});
  add("mlp.c_proj.bias", true, {c});
  add("ln_f.weight", false, {c});
  add("ln_f.bias", false, {c});
  add("lm_head.weight", false, {vocabulary, c});
}

void Layout::add(std::string_view name, bool per_layer, std::vector<std::int64_t> shape) {
  const std::int64_t elements = product(shape);
  stacks_.push_back({std::string(name), std::move(shape), per_layer, elements_, elements});
  elements_ += elements * (per_layer ? size_.layers : 1);
}

void initialise(const Layout& layout, std::uint64_t seed, std::vector<float>& values) {
  fashion::Random random(seed);
  values.assign(static_cast<std::size_t>(layout.elements()), 0.0f);
  const auto layers = static_cast<float>(layout.size().layers);
  layout.for_each_tensor([&](const std::string& name, const auto& shape, std::int64_t first) {
    const std::span tensor(values.data() + first, static_cast<std::size_t>(product(shape)));
    if (name.ends_with("bias")) return;
    if (shape.size() == 1) return void(std::ranges::fill(tensor, 1.0f));
    const float deviation = name.ends_with("c_proj.weight") ? 0.02f / std::sqrt(2 * layers) : 0.02f;
    for (float& value : tensor) value = deviation * bell(random);
  });
}

}  // namespace gpt
