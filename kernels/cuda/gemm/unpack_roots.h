// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/gemm/mirrored_tile.h"
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

/// Element (i, j), j <= i, of a root.
template <typename Real>
SHAMPOO_BOTH Real stored_root(FactorLayout layout, const Real* array, std::int64_t n,
                              std::int64_t i, std::int64_t j) {
  if (layout == FactorLayout::with_root) return array[j * (n + 1) + i + 1];
  const Real* const d = scales_of(array, n);
  const float c = widened(float16_root_of(array, n)[triangle_row(true, n, i) + j]);
  return static_cast<Real>(c) * (d[i] * d[j]);
}

/// Dense matrices <- roots of arrays of factors, for blocks that are about to be multiplied; those
/// of float16 are of roots of float32, times OperandScales::root. One block of threads per pair of
/// tiles that mirror each other.
template <typename Dense>
struct UnpackRoots {
  using Real = std::conditional_t<std::is_same_v<Dense, Float16>, float, Dense>;
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 5;
  using Shared = MirroredTile<Real>;

  ProductPhase phase;
  TaskList<RootTask> list;
  bool accumulates = false;  ///< for all present blocks; otherwise for preconditioned ones

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& tile) const;

 private:
  /// The tile's elements on and below the diagonal, times a scale.
  template <typename Threads>
  SHAMPOO_BOTH static void load(Threads& block, Shared& tile, FactorLayout layout,
                                const Real* array, std::int64_t n, TilePlace at, Real scale);
  SHAMPOO_BOTH static auto dense_matrix(void* data, std::int64_t member, std::int64_t n) {
    Dense* const matrix = static_cast<Dense*>(data) + member * n * n;
    if constexpr (sizeof(Dense) == sizeof(double))
      return Float64Matrix(matrix, n);
    else
      return FormedMatrix(matrix, n, sizeof(Dense) == 2 ? Form::half : Form::dense);
  }
};

template <typename Dense>
template <typename Threads>
SHAMPOO_BOTH void UnpackRoots<Dense>::load(Threads& block, Shared& tile, FactorLayout layout,
                                           const Real* array, std::int64_t n, TilePlace at,
                                           Real scale) {
  const auto exists = [=](int row, int column) { return at.has_lower(n, row, column); };
  const auto element_in = [&](FactorLayout known) {
    return [=](int row, int column) {
      return stored_root(known, array, n, at.top + row, at.left + column) * scale;
    };
  };
  // As it lies in memory.
  if (layout == FactorLayout::with_root)
    fill_tile<true>(block, tile, exists, element_in(FactorLayout::with_root));
  else
    fill_tile<false>(block, tile, exists, element_in(FactorLayout::with_float16_root));
}

template <typename Dense>
template <typename Threads>
SHAMPOO_BOTH void UnpackRoots<Dense>::operator()(Threads& block, Shared& tile) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.side;
  if (!(accumulates ? phase.accumulates(row) : phase.preconditions(row))) return;
  const Real* const array =
      static_cast<const Real*>(task.arrays) + member * array_elements(task.layout, n, sizeof(Real));
  Real scale = 1;
  if constexpr (std::is_same_v<Dense, Float16>)
    scale = static_cast<Real>(operand_scales(phase.elements, row).root);
  const TilePlace at = tile_place(number);
  load(block, tile, task.layout, array, n, at, scale);
  block.sync();
  store_both(block, tile, dense_matrix(task.dense, member, n), at);
}

}  // namespace shampoo::kernels::cuda
