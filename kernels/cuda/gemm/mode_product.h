// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/strided_span.h"
#include "kernels/cuda/gemm/product_phase.h"
#include "kernels/cuda/gemm/tile_product.h"
#include "kernels/cuda/gemm/unpack_roots.h"
#include "kernels/cuda/launch/reduce.h"

namespace shampoo::kernels::cuda {

/// A contraction of all blocks of a stack with the matrices of one dimension.
struct ModeTask {
  std::int64_t tiles = 0;
  std::int64_t first_block = 0;  ///< of the stack
  ModeShape shape;
  const void* matrices = nullptr;                 ///< arrays of factors, or bases
  FactorLayout layout = FactorLayout::with_root;  ///< of arrays of factors
  bool is_basis = false;                          ///< bases, one eigenvector per row
  bool transposed = false;                        ///< products are with the bases' transposes
  const void* from = nullptr;                     ///< flat, and so is the next
  void* to = nullptr;
};

/// Side of the tiles of ModeProduct.
inline constexpr int mode_tile = 64;

/// What multiplies is a matrix of lines x columns, of which an index along the dimension is the
/// line, and all others together the column; a last dimension's is the other way round, so that
/// columns are consecutive in memory.
struct ModePlane {
  std::int64_t lines = 0, columns = 0;

  SHAMPOO_BOTH explicit constexpr ModePlane(const ModeShape& shape)
      : lines(shape.after == 1 ? shape.before : shape.side),
        columns(shape.after == 1 ? shape.side : shape.before * shape.after) {}

  SHAMPOO_BOTH constexpr std::int64_t tiles(std::int64_t side) const {
    return ceiling(lines, side) * ceiling(columns, side);
  }
};

/// One dimension's matrix applied. One block of threads per tile of what comes out.
template <typename Real>
struct ModeProduct {
  static constexpr int side = mode_tile;
  using Tile = TileProduct<Real, side>;
  static constexpr int threads = Tile::threads;
  static constexpr int blocks_per_processor = 1;  // more would spill
  using Shared = typename Tile::Shared;

  ProductPhase phase;
  TaskList<ModeTask> list;
  bool accumulates = false;  ///< for all present blocks; otherwise for preconditioned ones

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Threads, typename Matrix>
  SHAMPOO_BOTH void contract(Threads& block, Shared& shared, const ModeTask& task,
                             const Matrix& root, std::int64_t tile, const Real* from,
                             Real* to) const;
};

/// Direction <- dense memory of every block that roots were applied to, if so asked, times what
/// operands were scaled by; partials <- its sums of squares. One block of threads per tile.
template <typename Real>
struct TakeDirections {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads];
  };

  ProductPhase phase;
  void* direction = nullptr;
  bool moves = false;
  bool scaled = false;  ///< by OperandScales::result

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// norms <- sums of the partial sums of every such block. One block of threads per block.
struct SumDirectionNorms {
  static constexpr int threads = 64;
  struct Shared {
    double sums[threads];
  };

  ProductPhase phase;
  double* norms = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// body(matrix of a block, with its index along the dimension as the line)
template <typename Real, typename Body>
SHAMPOO_BOTH void with_mode_matrix(const ModeTask& task, std::int64_t member, const Body& body) {
  const std::int64_t n = task.shape.side;
  const Real* const matrices = static_cast<const Real*>(task.matrices);
  if (task.is_basis) {
    const std::int64_t lines = task.transposed ? 1 : n, places = task.transposed ? n : 1;
    return body(Plain<Real>{{{lines}, {places}, n, n}, matrices + member * n * n});
  }
  const Real* const array = matrices + member * array_elements(task.layout, n, sizeof(Real));
  if (task.layout == FactorLayout::with_float16_root) return body(Float16Root<Real>{array, n, n});
  body(PairRoot<Real>{array, n, n});
}

template <typename Real>
template <typename Threads, typename Matrix>
SHAMPOO_BOTH void ModeProduct<Real>::contract(Threads& block, Shared& shared, const ModeTask& task,
                                              const Matrix& root, std::int64_t tile,
                                              const Real* from, Real* to) const {
  const ModeShape& shape = task.shape;
  const ModePlane plane(shape);
  const std::int64_t tile_columns = ceiling(plane.columns, side);
  const std::int64_t top = tile / tile_columns * side, start = tile % tile_columns * side;
  typename Threads::template PerThread<typename Tile::Sums> sums;
  if (shape.after == 1) {
    // Y <- S X, with S before x side
    const Plain<Real> s{{{shape.side}, {1}, shape.before, shape.side}, from};
    Tile::multiply(block, shared, s, top, root, start, sums);
    Tile::for_each_sum(block, shared, sums, [&](int i, int j, Real sum) {
      if (top + i < plane.lines && start + j < plane.columns)
        to[(top + i) * shape.side + start + j] = sum;
    });
    return;
  }
  // Y <- X S, with S side x after for every index before
  const std::int64_t slice = shape.side * shape.after;
  const Axis columns{1, shape.before == 1 ? 0 : shape.after, slice};
  const Plain<Real> s{{columns, {shape.after}, plane.columns, shape.side}, from};
  Tile::multiply(block, shared, root, top, s, start, sums);
  Tile::for_each_sum(block, shared, sums, [&](int i, int j, Real sum) {
    if (top + i < plane.lines && start + j < plane.columns)
      to[columns.offset(start + j) + (top + i) * shape.after] = sum;
  });
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void ModeProduct<Real>::operator()(Threads& block, Shared& shared) const {
  const auto item = list.item(block.index());
  const std::int64_t row = item.task.first_block + item.member;
  if (!(accumulates ? phase.accumulates(row) : phase.preconditions(row))) return;
  const std::int64_t flat = phase.elements.blocks[row].flat;
  const Real* const from = static_cast<const Real*>(item.task.from) + flat;
  Real* const to = static_cast<Real*>(item.task.to) + flat;
  with_mode_matrix<Real>(item.task, item.member, [&](const auto& matrix) {
    contract(block, shared, item.task, matrix, item.tile, from, to);
  });
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void TakeDirections<Real>::operator()(Threads& block, Shared& shared) const {
  const Tile& tile = phase.elements.tiles[block.index()];
  if (!phase.preconditions(tile.block)) return;
  const StridedSpan to = slot_span<Real>(direction, tile);
  const StridedSpan from = moves ? slot_span<Real>(phase.dense, tile) : to;
  const double scale = scaled ? operand_scales(phase.elements, tile.block).result : 1;
  block.each([&](int thread) {
    double sum = 0;
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real p[group_size];
      read_as<Real>(from, i, count, p);
      for (Real& element : p) {
        element = static_cast<Real>(static_cast<double>(element) * scale);
        sum += static_cast<double>(element) * static_cast<double>(element);
      }
      if (moves) write_as<Real>(to, i, count, p);
    });
    shared.sums[thread] = sum;
  });
  reduce(block, shared.sums, [](double a, double b) { return a + b; });
  block.each([&](int thread) {
    if (thread == 0) phase.elements.partials[block.index()] = shared.sums[0];
  });
}

template <typename Threads>
SHAMPOO_BOTH void SumDirectionNorms::operator()(Threads& block, Shared& shared) const {
  const std::int64_t row = block.index();
  if (!phase.preconditions(row)) return;
  const Block& mine = phase.elements.blocks[row];
  const double* const partials = phase.elements.partials + mine.first_tile;
  block.each([&](int thread) {
    double sum = 0;
    for (std::int32_t p = thread; p < mine.tile_count; p += threads) sum += partials[p];
    shared.sums[thread] = sum;
  });
  reduce(block, shared.sums, [](double a, double b) { return a + b; });
  block.each([&](int thread) {
    if (thread == 0) norms[row] = shared.sums[0];
  });
}

}  // namespace shampoo::kernels::cuda
