// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/gemm/tile_product.h"
#include "kernels/cuda/launch/batch.h"

namespace shampoo::kernels::cuda {

/// Two matrices and their product.
struct ThreeOf {
  SquareMatrixBatch a, b, c;

  SHAMPOO_BOTH std::int64_t count() const { return c.count; }
  ThreeOf range(std::int64_t begin, std::int64_t n) const {
    return {range_of(a, begin, n), range_of(b, begin, n), range_of(c, begin, n)};
  }
};

/// Two matrices, an addend and the result.
struct FourOf {
  SquareMatrixBatch a, b, d, c;

  SHAMPOO_BOTH std::int64_t count() const { return c.count; }
  FourOf range(std::int64_t begin, std::int64_t n) const {
    return {range_of(a, begin, n), range_of(b, begin, n), range_of(d, begin, n),
            range_of(c, begin, n)};
  }
};

/// C <- A B for active matrices. One block of threads per tile.
template <typename Real, int Side>
struct SquareProduct {
  using Tile = TileProduct<Real, Side>;
  static constexpr int threads = Tile::threads;
  static constexpr int blocks_per_processor = Tile::blocks_per_processor;
  using Shared = typename Tile::Shared;

  Batch<ThreeOf> batch;
  const std::uint8_t* active = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Real, int Side>
template <typename Threads>
SHAMPOO_BOTH void SquareProduct<Real, Side>::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.c.side;
  if (!is_active(active, item.group.c.first + item.member)) return;
  const std::int64_t tiles = ceiling(n, Side), offset = item.member * n * n;
  const std::int64_t top = item.part / tiles * Side, start = item.part % tiles * Side;
  const Plain<Real> a{{{n}, {1}, n, n}, static_cast<const Real*>(item.group.a.data) + offset};
  const Plain<Real> b{{{1}, {n}, n, n}, static_cast<const Real*>(item.group.b.data) + offset};
  Real* const c = static_cast<Real*>(item.group.c.data) + offset;
  typename Threads::template PerThread<typename Tile::Sums> sums;
  Tile::multiply(block, shared, a, top, b, start, sums);
  Tile::for_each_sum(block, shared, sums, [&](int i, int j, Real sum) {
    if (top + i < n && start + j < n) c[(top + i) * n + start + j] = sum;
  });
}

}  // namespace shampoo::kernels::cuda
