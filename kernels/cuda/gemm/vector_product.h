// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/mirrored_tile.h"
#include "kernels/cuda/gemm/mode_product.h"

namespace shampoo::kernels::cuda {

/// y <- M x for blocks with one dimension, of which ModeProduct would use one line of a tile. One
/// block of threads per 64 elements of y, each of which is four sums over every fourth element of
/// x, and their sum.
template <typename Real>
struct VectorProduct {
  static constexpr int side = mode_tile;
  static_assert(side == mirrored_side);
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 3;
  struct Shared {
    MirroredTile<Real> tile;
    Real x[side];
    Real sums[threads];
  };

  ProductPhase phase;
  TaskList<ModeTask> list;
  bool accumulates = false;  ///< for all present blocks; otherwise for preconditioned ones

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void VectorProduct<Real>::operator()(Threads& block, Shared& shared) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.shape.side, top = number * side;
  if (!(accumulates ? phase.accumulates(row) : phase.preconditions(row))) return;
  const std::int64_t flat = phase.elements.blocks[row].flat;
  const Real* const x = static_cast<const Real*>(task.from) + flat;
  Real* const y = static_cast<Real*>(task.to) + flat;
  typename Threads::template PerThread<Real> sums;
  with_mode_matrix<Real>(task, member, [&](const auto& matrix) {
    matrix.with_values([&](const auto& value) {
      for (std::int64_t left = 0; left < n; left += side) {
        const bool along_columns = matrix.along_places(top, left);
        block.each([&](int thread) {
          if (thread < side) shared.x[thread] = left + thread < n ? x[left + thread] : Real(0);
        });
        const auto exists = [&](int i, int j) { return top + i < n && left + j < n; };
        const auto element = [&](int i, int j) {
          return value(matrix.offset(matrix.line_offset(top + i), top + i, left + j));
        };
        if (along_columns)
          fill_tile<false>(block, shared.tile, exists, element);
        else
          fill_tile<true>(block, shared.tile, exists, element);
        block.sync();
        block.each([&](int thread) {
          for (int j = thread / side; j < side; j += threads / side)
            sums[thread] += shared.tile.v[thread % side][j] * shared.x[j];
        });
        block.sync();
      }
    });
  });
  block.each([&](int thread) { shared.sums[thread] = sums[thread]; });
  block.sync();
  block.each([&](int thread) {
    if (thread >= side || top + thread >= n) return;
    Real sum = 0;
    for (int part = thread; part < threads; part += side) sum += shared.sums[part];
    y[top + thread] = sum;
  });
}

}  // namespace shampoo::kernels::cuda
