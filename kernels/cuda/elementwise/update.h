// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/filter.h"
#include "kernels/rules/grafting.h"
#include "kernels/rules/update_rule.h"

namespace shampoo::kernels::cuda {

/// Elementwise::update(). One block of threads per tile.
template <typename Real>
struct UpdateTile {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = sizeof(Real) == 4 ? 3 : 2;
  struct Shared {};

  PassContext context;
  UpdatePass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// Inputs of an UpdateTile for its tile.
template <typename Real>
struct UpdateWork {
  UpdateRule<Real> rule;
  const Coefficients* coefficients;
  bool has_master, is_value;
  StridedSpan direction, averaging_state, weights, segment;

  SHAMPOO_BOTH bool adds_weights() const { return has_master || is_value; }
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
    z[k] = added(decayed, p[k]);
    p[k] = rule.update(p[k], decayed, w[k]);
  }
  write(work.averaging_state, i, count, z);
}

/// U, or the new value; a master gets it, too, and what is sent is rounded from it.
template <typename Real>
SHAMPOO_BOTH void send(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count,
                       const Real (&w)[group_size], Real (&p)[group_size]) {
  for (int k = 0; k < group_size; ++k)
    if (work.adds_weights()) p[k] = added(w[k], p[k]);
  if (!work.has_master) return write(work.segment, i, count, p);
  float master[group_size];
  for (int k = 0; k < group_size; ++k) master[k] = stored<float>(p[k]);
  write(work.weights, i, count, master);
  write(work.segment, i, count, master);
}

template <typename Real>
SHAMPOO_BOTH void update_group(const UpdateWork<Real>& work, std::int32_t i, std::int32_t count) {
  const UpdateRule<Real>& rule = work.rule;
  Real p[group_size], b[group_size], w[group_size] = {};
  read(work.direction, i, count, p);
  if (rule.averages) read(work.averaging_state, i, count, b);
  if (rule.decays || rule.iterates || work.adds_weights()) read(work.weights, i, count, w);
  for (int k = 0; k < group_size; ++k) {
    p[k] = rule.scaled(p[k]);
    if (rule.decays) p[k] = rule.decayed(p[k], w[k]);
  }
  if (rule.averages) {
    for (int k = 0; k < group_size; ++k) {
      b[k] = rule.accumulated(b[k], p[k]);
      p[k] = rule.averaged(b[k], p[k]);
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
  const Mode mode = context.modes[tile.block];
  if (mode == Mode::absent) return;
  const Block& b = context.elements.blocks[tile.block];
  const auto sent = static_cast<std::int64_t>(size_of(b.wire_type)) * (tile.flat - b.flat);
  const UpdateWork<Real> work{
      UpdateRule<Real>(context.coefficients[tile.block], norm_ratio(pass, mode, tile.block),
                       pass.averaging),
      &context.coefficients[tile.block],
      b.master >= 0,
      b.is_value,
      slot_span<Real>(pass.direction, tile),
      slot_span<Real>(pass.averaging_state, tile),
      weight_span(context.elements.tensors, tile, b, pass.masters),
      packed(static_cast<char*>(pass.segment) + b.segment + sent, b.wire_type)};

  block.each([&](int thread) {
    for_each_group(block, thread, tile,
                   [&](std::int32_t i, std::int32_t count) { update_group(work, i, count); });
  });
}

}  // namespace shampoo::kernels::cuda
