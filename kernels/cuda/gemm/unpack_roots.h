// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/gemm/factor_root_kernels.h"
#include "kernels/cuda/gemm/product_phase.h"
#include "kernels/rules/factor_layout.h"
#include "kernels/rules/stored.h"

namespace shampoo::kernels::cuda {

/// Scales of a block whose operands are of float16 (half_operands.h), in numbers that its tiles
/// have for reductions.
struct OperandScales {
  double& root;    ///< of the dimension that comes next
  double& result;  ///< of what the last sums are multiplied by
};
SHAMPOO_BOTH inline OperandScales operand_scales(const TileTable& elements, std::int64_t block) {
  double* const of_block = elements.partials + elements.blocks[block].first_tile;
  return {of_block[elements.tile_count], of_block[2 * elements.tile_count]};
}

/// The roots of one dimension of a stack.
struct RootTask {
  std::int64_t tiles = 0;        ///< of a triangle
  std::int64_t first_block = 0;  ///< of the stack
  std::int64_t side = 0;
  const void* arrays = nullptr;  ///< of factors with roots
  FactorLayout layout = FactorLayout::with_root;
  void* dense = nullptr;
};

/// Element (i, j), i <= j, of a root.
template <typename Real>
SHAMPOO_BOTH Real stored_root(FactorLayout layout, const Real* array, std::int64_t n,
                              std::int64_t i, std::int64_t j) {
  if (layout == FactorLayout::with_root) return array[i * (n + 1) + j + 1];
  const Real* const d = scales_of(array, n);
  return real<Real>(float16_root_of(array, n)[triangle_row(true, n, j) + i]) * (d[j] * d[i]);
}

/// Dense matrices <- roots of arrays of factors, for blocks that are about to be multiplied; those
/// of float16 are of roots of float32, times OperandScales::root. One block of threads per tile on
/// or above the diagonal.
template <typename Dense>
struct UnpackRoots {
  using Real = std::conditional_t<std::is_same_v<Dense, Float16>, float, Dense>;
  static constexpr int threads = 256;
  static constexpr int side = TransposedTile::side;
  struct Shared {
    Dense tile[side][side + (sizeof(Dense) == 2 ? 2 : 1)];  ///< as TransposedTile
  };

  ProductPhase phase;
  TaskList<RootTask> list;
  bool accumulates = false;  ///< for all present blocks; otherwise for preconditioned ones

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Dense>
template <typename Threads>
SHAMPOO_BOTH void UnpackRoots<Dense>::operator()(Threads& block, Shared& shared) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.side;
  if (!(accumulates ? phase.accumulates(row) : phase.preconditions(row))) return;
  const FactorLayout layout = task.layout;
  const Real* const array =
      static_cast<const Real*>(task.arrays) + member * array_elements(layout, n, sizeof(Real));
  Dense* const dense = static_cast<Dense*>(task.dense) + member * n * n;
  Real scale = 1;
  if constexpr (std::is_same_v<Dense, Float16>)
    scale = static_cast<Real>(operand_scales(phase.elements, row).root);
  const TileIndex tile = lower_tile(number);
  const std::int64_t top = tile.column * side, left = tile.row * side;
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = top + e / side, j = left + e % side;
      if (j >= n || i > j) continue;
      dense[i * n + j] = shared.tile[e / side][e % side] =
          stored<Dense>(stored_root(layout, array, n, i, j) * scale);
    }
  });
  block.sync();
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = top + e % side, j = left + e / side;
      if (j < n && i < j) dense[j * n + i] = shared.tile[e % side][e / side];
    }
  });
}

}  // namespace shampoo::kernels::cuda
