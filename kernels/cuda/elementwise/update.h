// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/apply.h"
#include "kernels/cuda/elementwise/filter.h"
#include "kernels/rules/grafting.h"
#include "kernels/rules/update_rule.h"

namespace shampoo::kernels::cuda {

/// Elementwise::update(). One block of threads per tile.
template <typename Real>
struct UpdateTile {
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = sizeof(Real) == 4 ? 4 : 2;
  struct Shared {};

  PassContext context;
  UpdatePass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// UpdatePass::non_finite. One block of threads.
struct CountDirections {
  static constexpr int threads = 256;
  struct Shared {
    std::int32_t blocks[threads], tensors[threads];
  };

  PassContext context;
  UpdatePass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// Elementwise::filter_and_update(). One block of threads per tile.
template <typename Real>
struct FilterAndUpdateTile {
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = sizeof(Real) == 4 ? 3 : 2;
  struct Shared {};

  FilterAndUpdateTile(const PassContext& pass_context, const GradientPass& gradient_pass,
                      const UpdatePass& update_pass)
      : context(pass_context), gradients(gradient_pass), pass(update_pass) {}

  PassContext context;
  FilterInputs gradients;
  UpdatePass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// The inputs of the update for one tile.
template <typename Real>
struct UpdateWork {
  SHAMPOO_BOTH UpdateWork(const PassContext& context, const UpdatePass& pass, const Tile& tile)
      : UpdateWork(context, pass, tile, context.elements.blocks[tile.block]) {}
  SHAMPOO_BOTH UpdateWork(const PassContext& context, const UpdatePass& pass, const Tile& tile,
                          const Block& b)
      : rule(context.coefficients[tile.block],
             direction_factors(pass, context.modes[tile.block], context.coefficients[tile.block],
                               b.elements, tile.block),
             pass.averaging),
        takes_step(kernels::takes_step<Real>(pass, context.modes[tile.block], tile.block)),
        coefficients(&context.coefficients[tile.block]),
        is_value(b.is_value),
        sends(pass.segment != nullptr),
        averaging_state(slot_span<Real>(pass.averaging_state, tile)),
        master(pass.masters == nullptr || b.master < 0
                   ? nullptr
                   : static_cast<float*>(pass.masters) + b.master + (tile.flat - b.flat)),
        values(value_span(context.elements.tensors, tile)),
        segment(segment_span(tile, b, pass.segment)) {}

  UpdateRule<Real> rule;
  bool takes_step;
  const Coefficients* coefficients;
  bool is_value;
  bool sends;  ///< otherwise the values change
  StridedSpan averaging_state;
  float* master;  ///< null: none
  StridedSpan values, segment;

  SHAMPOO_BOTH bool adds_weights() const { return master != nullptr || is_value; }

  SHAMPOO_BOTH void read_weights(std::int32_t i, std::int32_t count, Real (&w)[group_size]) const {
    if (master != nullptr)
      read_as<float>(packed(master, Type::float32), i, count, w);
    else
      read(values, i, count, w);
  }
};

/// Z and U, of the step P
template <typename Real>
SHAMPOO_BOTH void average_iterate(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count,
                                  const Real (&w)[group_size], Real (&p)[group_size]) {
  const IterateRule<Real> rule(*work.coefficients);
  Real z[group_size];
  read(work.averaging_state, i, count, z);
  for (int k = 0; k < group_size; ++k) {
    const Real decayed = rule.decayed(z[k]);
    z[k] = added(decayed, p[k], static_cast<Real>(INFINITY));
    p[k] = rule.update(p[k], decayed, w[k]);
  }
  write(work.averaging_state, i, count, z);
}

/// Values <- what apply() makes of them and of x in a segment, in `Real`
template <typename Real, typename Work, typename Sent>
SHAMPOO_BOTH void apply_rounded(const Work& work, std::int32_t i, std::int32_t count,
                                const Sent (&x)[group_size]) {
  Real u[group_size];
  with_type(work.segment.type, [&](auto* tag) {
    using Stored = std::remove_pointer_t<decltype(tag)>;
    for (int k = 0; k < group_size; ++k) u[k] = real<Real>(stored<Stored>(x[k]));
  });
  apply_group(u, work.values, work.is_value, i, count);
}

template <typename Work, typename Sent>
SHAMPOO_BOTH void send_or_apply(const Work& work, std::int32_t i, std::int32_t count,
                                const Sent (&x)[group_size]) {
  if (work.sends)
    write(work.segment, i, count, x);
  else if (moves_in_double(work.segment.type, work.values.type))
    apply_rounded<double>(work, i, count, x);
  else
    apply_rounded<float>(work, i, count, x);
}

/// The master, if there is one, and the segment or the values <- x
template <typename Real>
SHAMPOO_BOTH void write_weights(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count,
                                const Real (&x)[group_size]) {
  if (work.master == nullptr) return send_or_apply(work, i, count, x);
  float rounded[group_size];
  for (int k = 0; k < group_size; ++k) rounded[k] = stored<float>(x[k]);
  write_as<float>(packed(work.master, Type::float32), i, count, rounded);
  send_or_apply(work, i, count, rounded);
}

/// U, or the new value; a master gets it, too, and what is sent is rounded from it.
template <typename Real>
SHAMPOO_BOTH void send(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count,
                       const Real (&w)[group_size], Real (&p)[group_size]) {
  const Real threshold = overflow_threshold<Real>(work.segment.type, work.values.type);
  for (int k = 0; k < group_size; ++k)
    if (work.adds_weights()) p[k] = added(w[k], p[k], threshold);
  write_weights(work, i, count, p);
}

/// Masters and averaging state stay, and so does the value where the segment is applied.
template <typename Real>
SHAMPOO_BOTH void keep_group(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count) {
  if (!work.sends) return;
  Real w[group_size];
  if (work.is_value)
    work.read_weights(i, count, w);
  else
    for (int k = 0; k < group_size; ++k) w[k] = no_update<Real>();
  write(work.segment, i, count, w);
}

/// The update of the direction p
template <typename Real>
SHAMPOO_BOTH void update_group(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count,
                               Real (&p)[group_size]) {
  const UpdateRule<Real>& rule = work.rule;
  Real b[group_size], w[group_size] = {};
  if (rule.averages) read(work.averaging_state, i, count, b);
  if (rule.decays || rule.iterates || work.adds_weights()) work.read_weights(i, count, w);
  for (int k = 0; k < group_size; ++k) {
    p[k] = rule.scaled(p[k]);
    if (rule.decays) p[k] = rule.decayed(p[k], w[k]);
  }
  if (rule.averages) {
    for (int k = 0; k < group_size; ++k) {
      const Real accumulated = rule.accumulated(b[k], p[k]);
      p[k] = rule.averaged(accumulated, p[k]);
      b[k] = rule.kept(accumulated, b[k]);
    }
    write(work.averaging_state, i, count, b);
  }
  for (int k = 0; k < group_size; ++k) p[k] = rule.stepped(p[k]);
  if (rule.iterates) average_iterate(work, i, count, w, p);
  send(work, i, count, w, p);
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void UpdateTile<Real>::operator()(Threads& block, Shared&) const {
  if (*context.proceed == 0) return;
  const Tile tile = context.elements.tiles[block.index()];
  if (context.modes[tile.block] == Mode::absent) return;
  const UpdateWork<Real> work(context, pass, tile);
  const StridedSpan direction = slot_span<Real>(pass.direction, tile);
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      if (!work.takes_step) return keep_group(work, i, count);
      Real p[group_size];
      read(direction, i, count, p);
      update_group(work, i, count, p);
    });
  });
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void FilterAndUpdateTile<Real>::operator()(Threads& block, Shared&) const {
  if (*context.proceed == 0) return;
  const Tile tile = context.elements.tiles[block.index()];
  if (context.modes[tile.block] == Mode::absent) return;
  const FilterWork<Real> filter(context, gradients, tile);
  const UpdateWork<Real> update(context, pass, tile);
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real p[group_size];
      double unused = 0;
      filter_group<false>(filter, i, count, p, unused, unused);
      update_group(update, i, count, p);
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void CountDirections::operator()(Threads& block, Shared& shared) const {
  if (*context.proceed == 0) return;
  constexpr std::int32_t none = 0x7fffffff;
  const auto tensor_of = [&](const NonFiniteDirections& count) {
    return count.first_tensor < 0 ? none : count.first_tensor;
  };
  block.each([&](int thread) {
    NonFiniteDirections count;
    for (std::int64_t b = thread; b < context.elements.block_count; b += threads)
      count_direction(context, pass, static_cast<std::int32_t>(b), count);
    shared.blocks[thread] = count.blocks;
    shared.tensors[thread] = tensor_of(count);
  });
  reduce(block, shared.blocks, [](std::int32_t a, std::int32_t b) { return a + b; });
  reduce(block, shared.tensors, [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
  block.each([&](int thread) {
    if (thread != 0 || shared.blocks[0] == 0) return;
    pass.non_finite->blocks += shared.blocks[0];
    const std::int32_t before = tensor_of(*pass.non_finite);
    pass.non_finite->first_tensor = before < shared.tensors[0] ? before : shared.tensors[0];
  });
}

}  // namespace shampoo::kernels::cuda
