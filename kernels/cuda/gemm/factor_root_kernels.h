// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/launch/batch.h"
#include "kernels/cuda/launch/reduce.h"
#include "kernels/facets.h"
#include "kernels/rules/factor_layout.h"

namespace shampoo::kernels::cuda {

/// A tile of a matrix that is read along rows and written along columns; one more column keeps the
/// threads of a warp in different banks.
struct TransposedTile {
  static constexpr int side = mirrored_side;
  union {
    float in_float[side][side + 1];
    double in_double[side][side + 1];
  };

  SHAMPOO_BOTH float& at(const float*, int i, int j) { return in_float[i][j]; }
  SHAMPOO_BOTH double& at(const double*, int i, int j) { return in_double[i][j]; }
};

/// A <- factor, full and symmetric, scaled and shifted. One block of threads per lower tile.
struct UnpackFactors {
  static constexpr int threads = 256;
  struct Shared {
    TransposedTile tile;
    double traces[threads];
  };

  Batch<PackedMatrixGroup> batch;
  Loading loading;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  /// shared.traces[0] <- trace of scale * factor
  template <typename Real, typename Stored, typename Threads>
  SHAMPOO_BOTH static void sum_trace(Threads& block, Shared& shared, const Stored* pair,
                                     bool packed, std::int64_t n, Real scale);
  template <typename Real, typename Stored, typename Threads>
  SHAMPOO_BOTH void unpack(Threads& block, Shared& shared,
                           const typename Batch<PackedMatrixGroup>::WorkItem& item) const;
};

/// Roots <- scales^exponent X where that is finite and its flag 0. Runs twice: once to raise flags,
/// once to write. One block of threads per lower tile.
struct PackRoots {
  static constexpr int threads = 256;
  struct Shared {
    TransposedTile tile;
    double factor;
  };

  Batch<PackedMatrixGroup> batch;
  RootScaling scaling;
  std::int32_t* failed = nullptr;
  bool writes = false;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Real, typename Stored, typename Threads>
  SHAMPOO_BOTH void pack(Threads& block, Shared& shared,
                         const typename Batch<PackedMatrixGroup>::WorkItem& item) const;
  /// Element (i, j), j <= i, of a root in float16; false where it is not finite.
  template <typename Real, typename Stored>
  SHAMPOO_BOTH bool pack_float16(const Real* x, Real factor, std::int64_t i, std::int64_t j,
                                 Stored root, std::int64_t n, Stored* array) const;
};

template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH void UnpackFactors::sum_trace(Threads& block, Shared& shared, const Stored* pair,
                                           bool packed, std::int64_t n, Real scale) {
  block.each([&](int thread) {
    double sum = 0;
    for (std::int64_t i = thread; i < n; i += threads)
      sum += static_cast<double>(static_cast<Real>(pair[triangle_row(packed, n, i) + i]) * scale);
    shared.traces[thread] = sum;
  });
  reduce(block, shared.traces, [](double a, double b) { return a + b; });
}

template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH void UnpackFactors::unpack(
    Threads& block, Shared& shared, const typename Batch<PackedMatrixGroup>::WorkItem& item) const {
  constexpr int side = TransposedTile::side;
  const std::int64_t n = item.group.pairs.side, row = item.group.pairs.first + item.member;
  const Stored* const pair = static_cast<const Stored*>(item.group.pairs.arrays[item.member]);
  Real* const a = static_cast<Real*>(item.group.squares.data) + item.member * n * n;
  const bool packed = is_packed(item.group.pairs.layout);
  const Real scale = static_cast<Real>(loading.scales[row]);
  const Real shift = static_cast<Real>(loading.shifts[row]);
  const bool by_trace = loading.trace_exponent != 0;
  Real factor = 1;
  if (by_trace) {
    sum_trace(block, shared, pair, packed, n, scale);
    // max(trace(A), floor)^-exponent
    factor = static_cast<Real>(
        pow(larger_of(shared.traces[0], loading.floors[row]), -loading.trace_exponent));
  }

  const TileIndex tile = lower_tile(item.part);
  const std::int64_t top = tile.row * side, left = tile.column * side;
  constexpr const Real* real = nullptr;
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = top + e / side, j = left + e % side;
      if (i >= n || j > i) continue;
      Real x = static_cast<Real>(pair[triangle_row(packed, n, i) + j]) * scale;
      if (by_trace) x *= factor;
      if (i == j) x += shift;
      a[i * n + j] = shared.tile.at(real, e / side, e % side) = x;
    }
  });
  block.sync();
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = top + e % side, j = left + e / side;
      if (i < n && j < i) a[j * n + i] = shared.tile.at(real, e % side, e / side);
    }
  });
}

template <typename Threads>
SHAMPOO_BOTH void UnpackFactors::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  with_real(item.group.squares.type, [&](auto* real) {
    with_real(item.group.pairs.type, [&](auto* stored) {
      unpack<Element<decltype(real)>, Element<decltype(stored)>>(block, shared, item);
    });
  });
}

template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH void PackRoots::pack(Threads& block, Shared& shared,
                                  const typename Batch<PackedMatrixGroup>::WorkItem& item) const {
  constexpr int side = TransposedTile::side;
  const std::int64_t n = item.group.pairs.side;
  Stored* const pair = static_cast<Stored*>(item.group.pairs.arrays[item.member]);
  const Real* const x = static_cast<const Real*>(item.group.squares.data) + item.member * n * n;
  std::int32_t& flag = failed[item.group.pairs.first + item.member];
  const TileIndex tile = lower_tile(item.part);
  const std::int64_t top = tile.row * side, left = tile.column * side;
  const bool in_float16 = item.group.pairs.layout == FactorLayout::with_float16_root;
  block.each([&](int thread) {
    if (thread == 0) shared.factor = scaling.factor(item.group.pairs.first + item.member);
  });
  block.sync();
  const Real factor = static_cast<Real>(shared.factor);
  constexpr const Real* real = nullptr;

  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = top + e / side, j = left + e % side;
      if (i < n && j <= i) shared.tile.at(real, e / side, e % side) = factor * x[i * n + j];
    }
  });
  block.sync();
  block.each([&](int thread) {
    bool finite = true;
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = top + e % side, j = left + e / side;
      if (i >= n || j > i) continue;
      // The mean of both triangles: iterations leave X symmetric up to rounding only.
      const Real below = shared.tile.at(real, e % side, e / side), above = factor * x[j * n + i];
      const Stored mean = static_cast<Stored>(Real(0.5) * above + Real(0.5) * below);
      finite = finite && is_finite_real(below) && is_finite_real(above) && is_finite_real(mean);
      if (in_float16)
        finite = finite && pack_float16(x, factor, i, j, mean, n, pair);
      else if (writes)
        pair[j * (n + 1) + i + 1] = mean;
    }
    // All threads that write here write the same number.
    if (!writes && !finite && flag == 0) flag = non_finite_root;
  });
}

template <typename Real, typename Stored>
SHAMPOO_BOTH bool PackRoots::pack_float16(const Real* x, Real factor, std::int64_t i,
                                          std::int64_t j, Stored root, std::int64_t n,
                                          Stored* array) const {
  const Stored d_i = root_scale(static_cast<Stored>(factor * x[i * (n + 1)]));
  const Stored d_j = root_scale(static_cast<Stored>(factor * x[j * (n + 1)]));
  const Float16 c = scaled_root(root, d_i, d_j);
  if (writes) {
    float16_root_of(array, n)[triangle_row(true, n, i) + j] = c;
    if (i == j) scales_of(array, n)[i] = d_i;
  }
  return is_finite_number(c);
}

template <typename Threads>
SHAMPOO_BOTH void PackRoots::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  if (writes && failed[item.group.pairs.first + item.member] != 0) return;
  with_real(item.group.squares.type, [&](auto* real) {
    with_real(item.group.pairs.type, [&](auto* stored) {
      pack<Element<decltype(real)>, Element<decltype(stored)>>(block, shared, item);
    });
  });
}

}  // namespace shampoo::kernels::cuda
