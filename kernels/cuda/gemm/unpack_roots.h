// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/factor_root_kernels.h"
#include "kernels/cuda/gemm/product_phase.h"
#include "kernels/rules/factor_layout.h"
#include "kernels/rules/stored.h"

namespace shampoo::kernels::cuda {

/// The roots of one dimension of a stack.
struct RootTask {
  std::int64_t tiles = 0;        ///< of a triangle
  std::int64_t first_block = 0;  ///< of the stack
  std::int64_t side = 0;
  const void* arrays = nullptr;  ///< of factors with roots
  FactorLayout layout = FactorLayout::with_root;
  void* dense = nullptr;
};

/// Dense matrices <- roots of arrays of factors, for blocks that are about to be multiplied. One
/// block of threads per tile on or above the diagonal.
template <typename Real>
struct UnpackRoots {
  static constexpr int threads = 256;
  struct Shared {
    TransposedTile tile;
  };

  ProductPhase phase;
  TaskList<RootTask> list;
  bool accumulates = false;  ///< for all present blocks; otherwise for preconditioned ones
  bool to_tf32 = false;      ///< float32 is rounded to TF32, to the nearest

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  /// Element (i, j), i <= j, of the root.
  SHAMPOO_BOTH static Real root(FactorLayout layout, const Real* array, std::int64_t n,
                                std::int64_t i, std::int64_t j) {
    if (layout == FactorLayout::with_root) return array[i * (n + 1) + j + 1];
    const Real* const d = scales_of(array, n);
    return real<Real>(float16_root_of(array, n)[triangle_row(true, n, j) + i]) * (d[j] * d[i]);
  }
  SHAMPOO_BOTH float rounded(float x) const { return to_tf32 ? nearest_tf32(x) : x; }
  SHAMPOO_BOTH double rounded(double x) const { return x; }
};

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void UnpackRoots<Real>::operator()(Threads& block, Shared& shared) const {
  constexpr int side = TransposedTile::side;
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.side;
  if (!(accumulates ? phase.accumulates(row) : phase.preconditions(row))) return;
  const FactorLayout layout = task.layout;
  const Real* const array =
      static_cast<const Real*>(task.arrays) + member * array_elements(layout, n, sizeof(Real));
  Real* const dense = static_cast<Real*>(task.dense) + member * n * n;
  const TileIndex tile = lower_tile(number);
  const std::int64_t top = tile.column * side, left = tile.row * side;
  constexpr const Real* real = nullptr;
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = top + e / side, j = left + e % side;
      if (j >= n || i > j) continue;
      dense[i * n + j] = shared.tile.at(real, e / side, e % side) =
          rounded(root(layout, array, n, i, j));
    }
  });
  block.sync();
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = top + e % side, j = left + e / side;
      if (j < n && i < j) dense[j * n + i] = shared.tile.at(real, e % side, e / side);
    }
  });
}

}  // namespace shampoo::kernels::cuda
