// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/gemm/square_products.h"
#include "kernels/cuda/launch/batch.h"
#include "kernels/facets.h"
#include "kernels/solvers/solver_formulas.h"

namespace shampoo::kernels::cuda {

/// A in a form, S = A A, dense, and where M and N go.
struct DampingGroup {
  SquareMatrixBatch x, squared, m, n;

  SHAMPOO_BOTH std::int64_t count() const { return x.count; }
  DampingGroup range(std::int64_t begin, std::int64_t count) const {
    return {range_of(x, begin, count), range_of(squared, begin, count), range_of(m, begin, count),
            range_of(n, begin, count)};
  }
};

/// shifts, in the order of the batch, and what follows from them for each matrix; see Damping. One
/// thread per matrix.
struct FindShifts {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<DampingGroup> batch;
  Damping damping;
  const double* frobenius = nullptr;  ///< of A A, in the order of the batch
  DampingShift* shifts = nullptr;     ///< out, likewise

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// M and N; see DampingWeights. One block of threads per part of rows.
struct Damp {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<DampingGroup> batch;
  std::array<double, 3> polynomial{};
  const DampingShift* shifts = nullptr;
  Form form = Form::split;  ///< of A, M and N

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// failed <- 0, non_finite_root or skipped_root. One thread per matrix.
struct CheckIdentity {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<MatrixGroup> batch;
  const double* distances = nullptr;  ///< in the order of the batch
  double limit = 0;
  const std::int32_t* proceed = nullptr;
  const std::uint8_t* active = nullptr;
  std::int32_t* failed = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// C <- product A B + first A + addend D + identity I, of which the lower triangle stands for both.
/// One block of threads per lower tile.
template <typename Real, int Side>
struct SymmetricProduct {
  using Tile = TileProduct<Real, Side>;
  static constexpr int threads = Tile::threads;
  static constexpr int blocks_per_processor = Tile::blocks_per_processor;
  using Shared = typename Tile::Shared;

  Batch<FourOf> batch;
  Weights weights;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Threads>
SHAMPOO_BOTH void FindShifts::operator()(Threads& block, Shared&) const {
  block.each([&](int thread) {
    const std::int64_t number = block.index() * threads + thread;
    const std::int64_t row = batch.row_of(number);
    if (row >= 0) shifts[number] = damping_shift(damping, row, frobenius[number]);
  });
}

template <typename Threads>
SHAMPOO_BOTH void Damp::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const std::int64_t side = item.group.x.side;
  with_real(item.group.x.type, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    const DampingWeights<Real> weights(shifts[batch.number_of(item)], polynomial);
    const auto a = formed<Real>(item.group.x, item.member, form);
    const auto s = formed<Real>(item.group.squared, item.member, Form::dense);
    const auto to_m = formed<Real>(item.group.m, item.member, form);
    const auto to_n = formed<Real>(item.group.n, item.member, form);
    for_each_eight_of_rows(block, side, row_part(side, item.part),
                           [&](int, std::int64_t row, std::int64_t column) {
                             auto m = a.load(row, column);
                             auto n = s.load(row, column);
                             for (int k = 0; k < 8; ++k) {
                               n.v[k] = weights.of_squared * n.v[k] + weights.of_a * m.v[k];
                               m.v[k] *= weights.weight;
                               if (row != column + k) continue;
                               n.v[k] += weights.of_identity;
                               m.v[k] += weights.shift;
                             }
                             to_m.store(row, column, m);
                             to_n.store(row, column, n);
                           });
  });
}

template <typename Threads>
SHAMPOO_BOTH void CheckIdentity::operator()(Threads& block, Shared&) const {
  const bool refused = proceed != nullptr && *proceed == 0;
  block.each([&](int thread) {
    const std::int64_t number = block.index() * threads + thread;
    const std::int64_t row = batch.row_of(number);
    if (row < 0) return;
    failed[row] = refused || (active != nullptr && active[row] == 0) ? skipped_root
                  : distances[number] <= limit                       ? 0
                                                                     : non_finite_root;
  });
}

template <typename Real, int Side>
template <typename Threads>
SHAMPOO_BOTH void SymmetricProduct<Real, Side>::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.c.side, offset = item.member * n * n;
  const TileIndex tile = lower_tile(item.part);
  const std::int64_t top = tile.row * Side, start = tile.column * Side;
  const Real* const first = static_cast<const Real*>(item.group.a.data) + offset;
  const Real* const d = static_cast<const Real*>(item.group.d.data) + offset;
  // Both are symmetric: rows of A are its columns too.
  const Plain<Real> a{{{1}, {n}, n, n}, first};
  const Plain<Real> b{{{1}, {n}, n, n}, static_cast<const Real*>(item.group.b.data) + offset};
  Real* const c = static_cast<Real*>(item.group.c.data) + offset;
  const Real of_product = static_cast<Real>(weights.product);
  const Real of_first = static_cast<Real>(weights.first);
  const Real addend = static_cast<Real>(weights.addend);
  const Real of_identity = static_cast<Real>(weights.identity);
  typename Threads::template PerThread<typename Tile::Sums> sums;
  Tile::multiply(block, shared, a, top, b, start, sums);
  Tile::for_each_sum(block, shared, sums, [&](int i, int j, Real sum) {
    const std::int64_t row = top + i, column = start + j;
    if (row >= n || column > row) return;
    Real x = of_product * sum;
    if (of_first != 0) x += of_first * first[row * n + column];
    if (addend != 0) x += addend * d[row * n + column];
    if (row == column) x += of_identity;
    c[row * n + column] = c[column * n + row] = x;
  });
}

}  // namespace shampoo::kernels::cuda
