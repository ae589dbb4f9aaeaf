// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/gemm/mirrored_tile.h"
#include "kernels/cuda/launch/batch.h"
#include "kernels/cuda/launch/reduce.h"
#include "kernels/facets.h"
#include "kernels/rules/factor_layout.h"
#include "kernels/solvers/solver_formulas.h"

namespace shampoo::kernels::cuda {

/// loading.sizes of factors. One block of threads per matrix.
struct FindSizes {
  static constexpr int threads = 256;
  struct Shared {
    double numbers[threads];
  };

  Batch<PackedMatrixGroup> batch;
  Loading loading;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// A <- factor; see Loading, whose sizes are read. One block of threads per pair of tiles that
/// mirror each other.
struct UnpackFactors {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 4;
  struct Shared {
    AnyMirroredTile tiles;
    double traces[threads];
  };

  Batch<PackedMatrixGroup> batch;
  Loading loading;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Real, typename Stored, typename Threads>
  SHAMPOO_BOTH void unpack(Threads& block, Shared& shared,
                           const typename Batch<PackedMatrixGroup>::WorkItem& item) const;
};

/// Roots <- scales^exponent X where that is finite and its flag 0. Runs twice: once to raise flags,
/// once to write. One block of threads per pair of tiles that mirror each other.
struct PackRoots {
  static constexpr int threads = 256;
  struct Shared {
    AnyMirroredTile tiles;
    double factor;
    /// Of roots in float16, those of a tile's rows and columns.
    double row_scales[mirrored_side], column_scales[mirrored_side];
  };

  Batch<PackedMatrixGroup> batch;
  RootScaling scaling;
  std::int32_t* failed = nullptr;
  bool writes = false;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  using WorkItem = typename Batch<PackedMatrixGroup>::WorkItem;

  /// The tile's elements: means of both triangles, as iterations leave X symmetric up to rounding
  /// only.
  template <typename Real, typename Stored, typename Threads>
  SHAMPOO_BOTH void average(Threads& block, Shared& shared, const WorkItem& item,
                            TilePlace at) const;
  template <typename Real, typename Stored, typename Threads>
  SHAMPOO_BOTH void pack(Threads& block, Shared& shared, const WorkItem& item, TilePlace at) const;
  template <typename Real, typename Stored, typename Threads>
  SHAMPOO_BOTH void pack_float16(Threads& block, Shared& shared, const WorkItem& item,
                                 TilePlace at) const;
  SHAMPOO_BOTH void note(const WorkItem& item, bool finite) const {
    std::int32_t& flag = failed[item.group.pairs.first + item.member];
    // All threads that write here write the same number.
    if (!writes && !finite && flag == 0) flag = non_finite_root;
  }
};

/// body(null pointer to Real, null pointer to Stored)
template <typename Body>
SHAMPOO_BOTH void with_types(const PackedMatrixGroup& group, Body&& body) {
  with_real(group.squares.type, [&](auto* real) {
    with_real(group.pairs.type, [&](auto* stored) { body(real, stored); });
  });
}

/// With `sums`, one per thread, which are not written again before the next sync().
template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH LoadedFactor<Real, Stored> loaded_factor(
    Threads& block, double* sums, const typename Batch<PackedMatrixGroup>::WorkItem& item,
    const Loading& loading) {
  LoadedFactor<Real, Stored> factor(item.group.pairs, item.member, loading);
  if (loading.trace_exponent == 0) return factor;
  block.each([&](int thread) {
    double sum = 0;
    for (std::int64_t i = thread; i < factor.side; i += Threads::count)
      sum += static_cast<double>(factor.scaled(i, i));
    sums[thread] = sum;
  });
  reduce(block, sums, [](double a, double b) { return a + b; });
  const double floor = loading.floors[item.group.pairs.first + item.member];
  factor.divide_by_trace(sums[0], floor, loading.trace_exponent);
  return factor;
}

template <typename Threads>
SHAMPOO_BOTH void FindSizes::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.matrix(block.index());
  with_types(item.group, [&](auto* real, auto* stored) {
    const auto factor = loaded_factor<Element<decltype(real)>, Element<decltype(stored)>>(
        block, shared.numbers, item, loading);
    block.sync();
    block.each([&](int thread) {
      double largest = 0;
      for (std::int64_t i = thread; i < factor.side; i += threads)
        largest = largest_of(largest, fabs(static_cast<double>(factor.at(i, i))));
      shared.numbers[thread] = largest;
    });
  });
  reduce(block, shared.numbers, [](double a, double b) { return largest_of(a, b); });
  block.each([&](int thread) {
    if (thread == 0)
      loading.sizes[item.group.pairs.first + item.member] = Loading::size_of(shared.numbers[0]);
  });
}

template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH void UnpackFactors::unpack(
    Threads& block, Shared& shared, const typename Batch<PackedMatrixGroup>::WorkItem& item) const {
  const auto factor = loaded_factor<Real, Stored>(block, shared.traces, item, loading);
  const double* const sizes = loading.sizes;
  const double inverse = sizes == nullptr ? 1 : 1 / sizes[item.group.pairs.first + item.member];
  MirroredTile<Real>& tile = shared.tiles.of(static_cast<Real*>(nullptr));
  const TilePlace at = tile_place(item.part);
  const auto exists = [&](int row, int column) { return at.has_lower(factor.side, row, column); };
  fill_tile<false>(block, tile, exists, [&](int row, int column) {
    const Real x = factor.at(at.top + row, at.left + column);
    return static_cast<Real>(static_cast<double>(x) * inverse);
  });
  block.sync();
  store_both(block, tile, formed<Real>(item.group.squares, item.member, loading.form), at);
}

template <typename Threads>
SHAMPOO_BOTH void UnpackFactors::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  with_types(item.group, [&](auto* real, auto* stored) {
    unpack<Element<decltype(real)>, Element<decltype(stored)>>(block, shared, item);
  });
}

template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH void PackRoots::average(Threads& block, Shared& shared, const WorkItem& item,
                                     TilePlace at) const {
  const auto x = formed<Real>(item.group.squares, item.member, Form::dense);
  MirroredTile<Real>& tile = shared.tiles.of(static_cast<Real*>(nullptr));
  block.each([&](int thread) {
    if (thread == 0) shared.factor = scaling.factor(item.group.pairs.first + item.member);
  });
  load_mirrored(block, tile, x, at);
  block.sync();
  const Real factor = static_cast<Real>(shared.factor);
  for_each_eight(block, [&](int row, int column) {
    const auto eight = x.load(at.top + row, at.left + column);
    bool finite = true;
    for (int k = 0; k < 8; ++k) {
      Real& element = tile.v[row][column + k];
      const Real below = factor * eight.v[k], above = factor * element;
      const Stored mean = static_cast<Stored>(Real(0.5) * above + Real(0.5) * below);
      finite = finite && is_finite_real(below) && is_finite_real(above) && is_finite_real(mean);
      element = static_cast<Real>(mean);
    }
    note(item, finite);
  });
  block.sync();
}

template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH void PackRoots::pack(Threads& block, Shared& shared, const WorkItem& item,
                                  TilePlace at) const {
  constexpr int side = mirrored_side;
  const std::int64_t n = item.group.pairs.side;
  Stored* const pair = static_cast<Stored*>(item.group.pairs.arrays[item.member]);
  const MirroredTile<Real>& tile = shared.tiles.of(static_cast<Real*>(nullptr));
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t i = at.top + e % side, j = at.left + e / side;
      if (i < n && j <= i)
        pair[j * (n + 1) + i + 1] = static_cast<Stored>(tile.v[e % side][e / side]);
    }
  });
}

template <typename Real, typename Stored, typename Threads>
SHAMPOO_BOTH void PackRoots::pack_float16(Threads& block, Shared& shared, const WorkItem& item,
                                          TilePlace at) const {
  constexpr int side = mirrored_side;
  const std::int64_t n = item.group.pairs.side;
  Stored* const array = static_cast<Stored*>(item.group.pairs.arrays[item.member]);
  const Real* const x = static_cast<const Real*>(item.group.squares.data) + item.member * n * n;
  const auto scale = [&](std::int64_t i) {
    return i < n
               ? root_scale(static_cast<Stored>(static_cast<Real>(shared.factor) * x[i * (n + 1)]))
               : Stored(1);
  };
  block.each([&](int thread) {
    if (thread < side)
      shared.row_scales[thread] = static_cast<double>(scale(at.top + thread));
    else if (thread < 2 * side)
      shared.column_scales[thread - side] = static_cast<double>(scale(at.left + thread - side));
  });
  block.sync();
  const MirroredTile<Real>& tile = shared.tiles.of(static_cast<Real*>(nullptr));
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const int row = e / side, column = e % side;
      const std::int64_t i = at.top + row, j = at.left + column;
      if (i >= n || j > i) continue;
      const Stored d_i = static_cast<Stored>(shared.row_scales[row]);
      const Float16 c = scaled_root(static_cast<Stored>(tile.v[row][column]), d_i,
                                    static_cast<Stored>(shared.column_scales[column]));
      note(item, is_finite_number(c));
      if (!writes) continue;
      float16_root_of(array, n)[triangle_row(true, n, i) + j] = c;
      if (i == j) scales_of(array, n)[i] = d_i;
    }
  });
}

template <typename Threads>
SHAMPOO_BOTH void PackRoots::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  if (writes && failed[item.group.pairs.first + item.member] != 0) return;
  const TilePlace at = tile_place(item.part);
  with_types(item.group, [&](auto* real, auto* stored) {
    using Real = Element<decltype(real)>;
    using Stored = Element<decltype(stored)>;
    average<Real, Stored>(block, shared, item, at);
    if (item.group.pairs.layout == FactorLayout::with_float16_root)
      pack_float16<Real, Stored>(block, shared, item, at);
    else if (writes)
      pack<Real, Stored>(block, shared, item, at);
  });
}

}  // namespace shampoo::kernels::cuda
