// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/strided_span.h"
#include "kernels/cuda/launch/reduce.h"
#include "kernels/rules/gradient_state_rule.h"
#include "kernels/step_records.h"
#include "kernels/views.h"

namespace shampoo::kernels::cuda {

/// partials[tile] <- sum of squares of the scaled gradient, NaN where an element is not finite.
/// One block of threads per tile.
template <typename Real>
struct ScanTile {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = sizeof(Real) == 4 ? 6 : 4;
  struct Shared {
    double sums[threads];
    std::int32_t finite[threads];
  };

  TileTable gradients;
  const double* gradient_scale = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// The result on all gradients, from the partial sums of all tiles. One block of threads, as many
/// as there can be: they wait for memory.
struct ReduceScan {
  static constexpr int threads = 1024;
  struct Shared {
    double sums[threads];
    std::int32_t bad[threads];
  };

  TileTable gradients;
  bool skips = true;
  ScanResult* result = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// Elementwise::scale_tensors(). One block of threads per tensor.
struct ScaleTensor {
  static constexpr int threads = 128;
  struct Shared {
    double sums[threads];
  };

  TileTable gradients;
  double max_norm = 0;
  const double* gradient_scale = nullptr;
  double* scales = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void ScanTile<Real>::operator()(Threads& block, Shared& shared) const {
  const std::int64_t index = block.index();
  const Tile tile = gradients.tiles[index];
  const bool present = gradients.tensors.gradients[tile.tensor] != nullptr;
  const Real scale = static_cast<Real>(*gradient_scale);
  const bool narrows =
      sizeof(Real) > sizeof(float) && gradients.blocks[tile.block].scans_in_float32;
  block.each([&](int thread) {
    double sum = 0;
    bool finite = true;
    if (present) {
      const StridedSpan span = gradient_span(gradients.tensors, tile);
      for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
        Real g[group_size];
        read(span, i, count, g);
        for (int k = 0; k < group_size; ++k) {
          const Real scaled =
              narrows ? Real{static_cast<float>(scale) * static_cast<float>(g[k])} : scale * g[k];
          sum += static_cast<double>(scaled) * static_cast<double>(scaled);
          finite = finite && is_finite(scaled);
        }
      });
    }
    shared.sums[thread] = sum;
    shared.finite[thread] = finite;
  });
  reduce(block, shared.sums, [](double a, double b) { return a + b; });
  reduce(block, shared.finite, [](std::int32_t a, std::int32_t b) { return a & b; });
  block.each([&](int thread) {
    if (thread == 0)
      gradients.partials[index] =
          shared.finite[0] != 0 ? shared.sums[0] : bits_to<double>(0x7ff8000000000000ull);
  });
}

template <typename Threads>
SHAMPOO_BOTH void ReduceScan::operator()(Threads& block, Shared& shared) const {
  constexpr std::int32_t none = 0x7fffffff;
  block.each([&](int thread) {
    double sum = 0;
    std::int32_t bad = none;
    for (std::int64_t i = thread; i < gradients.tile_count; i += threads) {
      const double partial = gradients.partials[i];
      sum += partial;
      if (partial == partial) continue;
      const std::int32_t tensor = gradients.tiles[i].tensor;
      if (tensor < bad) bad = tensor;
    }
    shared.sums[thread] = sum;
    shared.bad[thread] = bad;
  });
  reduce(block, shared.sums, [](double a, double b) { return a + b; });
  reduce(block, shared.bad, [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
  block.each([&](int thread) {
    if (thread != 0) return;
    const bool found = shared.bad[0] != none;
    result->proceed = skips && found ? 0 : 1;
    result->first_bad = found ? shared.bad[0] : -1;
    result->squared_norm = shared.sums[0];
  });
}

template <typename Threads>
SHAMPOO_BOTH void ScaleTensor::operator()(Threads& block, Shared& shared) const {
  const Block& tensor = gradients.blocks[block.index()];
  block.each([&](int thread) {
    double sum = 0;
    for (std::int32_t i = thread; i < tensor.tile_count; i += threads)
      sum += gradients.partials[tensor.first_tile + i];
    shared.sums[thread] = sum;
  });
  reduce(block, shared.sums, [](double a, double b) { return a + b; });
  block.each([&](int thread) {
    if (thread == 0)
      scales[tensor.tensor] = *gradient_scale * clip_factor(max_norm, shared.sums[0]);
  });
}

}  // namespace shampoo::kernels::cuda
