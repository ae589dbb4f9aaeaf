// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/elementwise/gradient.h"

namespace shampoo::kernels::cuda {

/// Scaling to the grafted norm, decay, momentum, step length; written into the segment. One block
/// of threads per tile.
template <typename Real>
struct UpdateTile {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = sizeof(Real) == 4 ? 3 : 2;
  struct Shared {};

  PhaseByValue phase;
  Update slots;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// What one block makes of an element.
template <typename Real>
struct UpdateRule {
  SHAMPOO_BOTH UpdateRule(const Coefficients& c, const Block& block, double graft_to_direction)
      : s(static_cast<Real>(graft_to_direction)),
        decay(static_cast<Real>(c.decay)),
        momentum(static_cast<Real>(c.momentum)),
        damp(static_cast<Real>(c.damp)),
        step(static_cast<Real>(c.step)),
        decays(c.decay != 0),
        has_master(block.master >= 0),
        assigns(block.assigns) {}

  SHAMPOO_BOTH bool reads_weights() const { return decays || has_master || assigns; }

  Real s, decay, momentum, damp, step;
  bool decays, has_master, assigns;
};

/// Where the elements of one tile lie.
struct UpdateStrips {
  Strip direction, momentum, weights, segment;
};

/// ||graft(F)|| / (||P|| + 1e-16)
SHAMPOO_BOTH inline double graft_to_direction(const Update& slots, std::int32_t block) {
  return std::sqrt(slots.graft_norms[block]) / (std::sqrt(slots.direction_norms[block]) + 1e-16);
}

/// B <- momentum B + damp P ; P <- nesterov ? damp P + momentum B : B
template <typename Real>
SHAMPOO_BOTH void add_momentum(const UpdateRule<Real>& rule, bool nesterov, const Strip& momentum,
                               std::int32_t i, std::int32_t count, Real (&b)[group_size],
                               Real (&p)[group_size]) {
  for (int k = 0; k < group_size; ++k) {
    b[k] = rule.momentum * b[k] + rule.damp * p[k];
    p[k] = nesterov ? rule.damp * p[k] + rule.momentum * b[k] : b[k];
  }
  write(momentum, i, count, b);
}

/// U = step P, or the new value; a master gets it, too, and what is sent is rounded from it.
template <typename Real>
SHAMPOO_BOTH void send(const UpdateRule<Real>& rule, const UpdateStrips& strips, std::int32_t i,
                       std::int32_t count, const Real (&w)[group_size], Real (&p)[group_size]) {
  for (int k = 0; k < group_size; ++k) {
    p[k] *= rule.step;
    if (rule.has_master || rule.assigns) p[k] = w[k] + p[k];
  }
  if (!rule.has_master) return write(strips.segment, i, count, p);
  float master[group_size];
  for (int k = 0; k < group_size; ++k) master[k] = static_cast<float>(p[k]);
  write(strips.weights, i, count, master);
  write(strips.segment, i, count, master);
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void UpdateTile<Real>::operator()(Threads& block, Shared&) const {
  if (*phase.proceed == 0) return;
  const Tile tile = phase.elements.tiles[block.index()];
  const Mode mode = phase.modes[tile.block];
  if (mode == Mode::absent) return;
  const Block& b = phase.elements.blocks[tile.block];
  const double s = mode == Mode::grafted ? graft_to_direction(slots, tile.block) : 1.0;
  const UpdateRule<Real> rule(phase.coefficients[tile.block], b, s);
  const auto slot = [&](const void* first) {
    auto* const numbers = const_cast<Real*>(static_cast<const Real*>(first));
    return packed(numbers == nullptr ? nullptr : numbers + tile.flat, type_of_real<Real>);
  };
  const auto sent = static_cast<std::int64_t>(size_of(b.shipped)) * (tile.flat - b.flat);
  const UpdateStrips strips{
      slot(slots.direction), slot(slots.momentum),
      weight_strip(phase.elements.tensors, tile, b, slots.masters),
      packed(static_cast<char*>(slots.segment) + b.segment + sent, b.shipped)};

  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real p[group_size], momentum[group_size], w[group_size] = {};
      read(strips.direction, i, count, p);
      if (slots.has_momentum) read(strips.momentum, i, count, momentum);
      if (rule.reads_weights()) read(strips.weights, i, count, w);
      for (int k = 0; k < group_size; ++k) {
        p[k] = p[k] * rule.s;
        if (rule.decays) p[k] = p[k] + rule.decay * w[k];
      }
      if (slots.has_momentum)
        add_momentum(rule, slots.nesterov, strips.momentum, i, count, momentum, p);
      send(rule, strips, i, count, w, p);
    });
  });
}

}  // namespace shampoo::kernels::cuda
