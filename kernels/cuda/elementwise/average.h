// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/update.h"
#include "kernels/cuda/launch/reduce.h"

namespace shampoo::kernels::cuda {

/// UpdatePass::value_average, after the update. One block of threads per tile.
template <typename Real>
struct AverageTile {
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = 3;
  struct Shared {};

  PassContext context;
  UpdatePass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// Squared norms of the tiles of new values, in partials[tile]. One block of threads per tile.
template <typename Real>
struct NewValueNormTile {
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = 3;
  struct Shared {
    double sums[threads];
  };

  PassContext context;
  UpdatePass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// UpdatePass::projection, after the update. One block of threads per tile.
template <typename Real>
struct ProjectTile {
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = 3;
  struct Shared {};

  PassContext context;
  UpdatePass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// What apply() will make of the values and the segment.
template <typename Sum, typename Real>
SHAMPOO_BOTH void read_applied(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count,
                               Real (&w)[group_size]) {
  Sum x[group_size];
  read(work.segment, i, count, x);
  if (!work.is_value) {
    Sum v[group_size];
    read(work.values, i, count, v);
    const Sum threshold = overflow_threshold<Sum>(work.values.type, work.values.type);
    for (int k = 0; k < group_size; ++k) x[k] = added(v[k], x[k], threshold);
  }
  with_type(work.values.type, [&](auto* tag) {
    using Stored = std::remove_pointer_t<decltype(tag)>;
    for (int k = 0; k < group_size; ++k) w[k] = real<Real>(stored<Stored>(x[k]));
  });
}

/// The values that the update has left.
template <typename Real>
SHAMPOO_BOTH void read_new(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count,
                           Real (&w)[group_size]) {
  if (!work.sends || work.master != nullptr)
    work.read_weights(i, count, w);
  else if (moves_in_double(work.segment.type, work.values.type))
    read_applied<double>(work, i, count, w);
  else
    read_applied<float>(work, i, count, w);
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void AverageTile<Real>::operator()(Threads& block, Shared&) const {
  if (*context.proceed == 0) return;
  const Tile tile = context.elements.tiles[block.index()];
  if (context.modes[tile.block] == Mode::absent) return;
  const double weight = pass.value_average.weights[tile.block];
  if (weight == 0) return;
  const UpdateWork<Real> work(context, pass, tile);
  if (!work.takes_step) return;
  const ValueAverageRule<Real> rule(weight);
  const StridedSpan average = slot_span<Real>(pass.value_average.average, tile);
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real a[group_size], w[group_size];
      read(average, i, count, a);
      read_new(work, i, count, w);
      for (int k = 0; k < group_size; ++k) a[k] = rule(a[k], w[k]);
      write(average, i, count, a);
      if (pass.value_average.replaces) write_weights(work, i, count, a);
    });
  });
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void NewValueNormTile<Real>::operator()(Threads& block, Shared& shared) const {
  if (*context.proceed == 0) return;
  const Tile tile = context.elements.tiles[block.index()];
  if (context.modes[tile.block] == Mode::absent) return;
  const UpdateWork<Real> work(context, pass, tile);
  block.each([&](int thread) {
    double sum = 0;
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real w[group_size];
      read_new(work, i, count, w);
      sum += sum_of_products(w, w, count);
    });
    shared.sums[thread] = sum;
  });
  reduce(block, shared.sums, [](double a, double b) { return a + b; });
  block.each([&](int thread) {
    if (thread == 0) context.elements.partials[block.index()] = shared.sums[0];
  });
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void ProjectTile<Real>::operator()(Threads& block, Shared&) const {
  if (*context.proceed == 0) return;
  const Tile tile = context.elements.tiles[block.index()];
  if (context.modes[tile.block] == Mode::absent) return;
  const UpdateWork<Real> work(context, pass, tile);
  if (!work.takes_step) return;
  const ProjectedValue<Real> rule(pass.projection, tile.block);
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real w[group_size];
      read_new(work, i, count, w);
      for (int k = 0; k < group_size; ++k) w[k] = rule(w[k]);
      write_weights(work, i, count, w);
    });
  });
}

}  // namespace shampoo::kernels::cuda
