// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/update.h"
#include "kernels/cuda/launch/reduce.h"

namespace shampoo::kernels::cuda {

/// Elementwise::graft_directions(). One block of threads per tile.
template <typename Real>
struct GraftTile {
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = 5;
  struct Shared {};

  PassContext context;
  UpdatePass pass;
  void* direction;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// The part of Elementwise::measure_directions() of one tile, in partials[k tile_count + tile], k
/// < 3. One block of threads per tile.
template <typename Real>
struct MeasureTile {
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = sizeof(Real) == 4 ? 5 : 2;
  struct Shared {
    double direction[threads], mixed[threads], values[threads];
  };

  PassContext context;
  UpdatePass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// sums[count b + k] <- the k-th numbers of the tiles of block b, where it is present. One thread
/// per block.
struct SumPartials {
  static constexpr int threads = 128;
  struct Shared {};

  PassContext context;
  int count;
  double* sums;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const {
    if (*context.proceed == 0) return;
    const TileTable& elements = context.elements;
    block.each([&](int thread) {
      const std::int64_t i = block.index() * threads + thread;
      if (i >= elements.block_count || context.modes[i] == Mode::absent) return;
      for (int k = 0; k < count; ++k)
        sums[count * i + k] =
            sum_of_tiles(elements.blocks[i], elements.partials + k * elements.tile_count);
    });
  }
};

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void GraftTile<Real>::operator()(Threads& block, Shared&) const {
  if (*context.proceed == 0) return;
  const Tile tile = context.elements.tiles[block.index()];
  const Mode mode = context.modes[tile.block];
  if (mode == Mode::absent) return;
  const auto ratio = static_cast<Real>(norm_ratio(pass, mode, tile.block));
  const StridedSpan span = slot_span<Real>(direction, tile);
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real p[group_size];
      read(span, i, count, p);
      for (int k = 0; k < group_size; ++k) p[k] *= ratio;
      write(span, i, count, p);
    });
  });
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void MeasureTile<Real>::operator()(Threads& block, Shared& shared) const {
  if (*context.proceed == 0) return;
  const std::int64_t index = block.index();
  const Tile tile = context.elements.tiles[index];
  if (context.modes[tile.block] == Mode::absent) return;
  const bool reads_values = pass.scaling.rule == ScalingRule::trust;
  const StridedSpan direction = slot_span<Real>(pass.direction, tile);
  const StridedSpan weights = weight_span(context.elements.tensors, tile,
                                          context.elements.blocks[tile.block], pass.masters);
  block.each([&](int thread) {
    double pp = 0, pw = 0, ww = 0;
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real p[group_size], w[group_size] = {};
      read(direction, i, count, p);
      if (reads_values) read(weights, i, count, w);
      pp += sum_of_products(p, p, count);
      pw += sum_of_products(p, w, count);
      ww += sum_of_products(w, w, count);
    });
    shared.direction[thread] = pp;
    shared.mixed[thread] = pw;
    shared.values[thread] = ww;
  });
  const auto store = [&](double* sums, int k) {
    reduce(block, sums, [](double a, double b) { return a + b; });
    block.each([&](int thread) {
      if (thread == 0) context.elements.partials[k * context.elements.tile_count + index] = sums[0];
    });
  };
  store(shared.direction, 0);
  store(shared.mixed, 1);
  store(shared.values, 2);
}

}  // namespace shampoo::kernels::cuda
