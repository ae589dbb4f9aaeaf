// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/strided_span.h"
#include "kernels/rules/gradient_rule.h"

namespace shampoo::kernels::cuda {

/// Elementwise::accumulate(). One block of threads per tile.
template <typename Real>
struct AccumulateTile {
  static constexpr int threads = 256;
  struct Shared {};

  TileTable elements;
  const double* keep = nullptr;
  const double* add = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void AccumulateTile<Real>::operator()(Threads& block, Shared&) const {
  const Tile tile = elements.tiles[block.index()];
  if (elements.tensors.values[tile.tensor] == nullptr) return;
  const bool present =
      elements.tensors.gradients != nullptr && elements.tensors.gradients[tile.tensor] != nullptr;
  const StridedSpan values = value_span(elements.tensors, tile);
  const AccumulateRule<Real> rule(*keep, *add);
  block.each([&](int thread) {
    const StridedSpan from = present ? gradient_span(elements.tensors, tile) : values;
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real w[group_size] = {}, g[group_size];
      if (rule.keeps) read(values, i, count, w);
      if (present) read(from, i, count, g);
      for (int k = 0; k < group_size; ++k) w[k] = present ? rule(w[k], g[k]) : rule.kept(w[k]);
      write(values, i, count, w);
    });
  });
}

}  // namespace shampoo::kernels::cuda
