// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/product_phase.h"
#include "kernels/cuda/gemm/tile_product.h"
#include "kernels/cuda/launch/reduce.h"

namespace shampoo::kernels::cuda {

/// A contraction of all blocks of a stack with the matrices of one dimension, or a copy of them.
struct ModeTask {
  std::int64_t tiles = 0;
  std::int64_t first_block = 0;  ///< of the stack
  ModeShape shape;
  const void* matrices = nullptr;  ///< pair arrays, or bases; null: a copy
  bool is_basis = false;           ///< bases, one eigenvector per row
  bool transposed = false;         ///< products are with the bases' transposes
  bool from_dense = false;         ///< from dense memory to the elements, or back
};

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
template <typename Real, int Side>
struct ModeProduct {
  using Tile = TileProduct<Real, Side>;
  static constexpr int threads = Tile::threads;
  static constexpr int blocks_per_processor = Tile::blocks_per_processor;
  using Shared = typename Tile::Shared;

  ProductPhase phase;
  void* elements = nullptr;
  TaskList<ModeTask> list;
  bool accumulates = false;  ///< for all present blocks; otherwise for preconditioned ones

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Threads>
  SHAMPOO_BOTH void copy(Threads& block, const ModeTask& task, std::int64_t tile, const Real* from,
                         Real* to) const;
  template <typename Threads, typename Matrix>
  SHAMPOO_BOTH void contract(Threads& block, Shared& shared, const ModeTask& task,
                             const Matrix& root, std::int64_t tile, const Real* from,
                             Real* to) const;
};

/// partials <- sum of squares of the direction of every block that roots were applied to. One block
/// of threads per tile.
template <typename Real>
struct DirectionNorms {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads];
  };

  ProductPhase phase;
  const void* direction = nullptr;

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

template <typename Real, int Side>
template <typename Threads>
SHAMPOO_BOTH void ModeProduct<Real, Side>::copy(Threads& block, const ModeTask& task,
                                                std::int64_t tile, const Real* from,
                                                Real* to) const {
  constexpr std::int64_t size = Side * Side;
  const std::int64_t rest = task.shape.elements() - tile * size;
  block.each([&](int thread) {
    for (std::int64_t e = thread; e < (rest < size ? rest : size); e += threads)
      to[tile * size + e] = from[tile * size + e];
  });
}

template <typename Real, int Side>
template <typename Threads, typename Matrix>
SHAMPOO_BOTH void ModeProduct<Real, Side>::contract(Threads& block, Shared& shared,
                                                    const ModeTask& task, const Matrix& root,
                                                    std::int64_t tile, const Real* from,
                                                    Real* to) const {
  const ModeShape& shape = task.shape;
  const ModePlane plane(shape);
  const std::int64_t tile_columns = ceiling(plane.columns, Side);
  const std::int64_t top = tile / tile_columns * Side, start = tile % tile_columns * Side;
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

template <typename Real, int Side>
template <typename Threads>
SHAMPOO_BOTH void ModeProduct<Real, Side>::operator()(Threads& block, Shared& shared) const {
  const auto [task, member, tile] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.shape.side;
  if (!(accumulates ? phase.accumulates(row) : phase.preconditions(row))) return;
  const std::int64_t flat = phase.elements.blocks[row].flat;
  Real* const d = static_cast<Real*>(elements) + flat;
  Real* const dense = static_cast<Real*>(phase.dense) + flat;
  const Real* const from = task.from_dense ? dense : d;
  Real* const to = task.from_dense ? d : dense;
  const Real* const matrices = static_cast<const Real*>(task.matrices);
  if (matrices == nullptr) return copy(block, task, tile, from, to);
  if (!task.is_basis)
    return contract(block, shared, task, PairRoot<Real>{matrices + member * n * (n + 1), n, n},
                    tile, from, to);
  const std::int64_t lines = task.transposed ? 1 : n, places = task.transposed ? n : 1;
  contract(block, shared, task, Plain<Real>{{{lines}, {places}, n, n}, matrices + member * n * n},
           tile, from, to);
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void DirectionNorms<Real>::operator()(Threads& block, Shared& shared) const {
  const Tile& tile = phase.elements.tiles[block.index()];
  if (!phase.preconditions(tile.block)) return;
  const Real* const d = static_cast<const Real*>(direction) + tile.flat;
  const std::int64_t count = static_cast<std::int64_t>(tile.rows) * tile.columns;
  block.each([&](int thread) {
    double sum = 0;
    for (std::int64_t e = thread; e < count; e += threads) {
      const double x = static_cast<double>(d[e]);
      sum += x * x;
    }
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
