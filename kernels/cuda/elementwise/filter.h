// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/elementwise/gradient.h"
#include "kernels/cuda/launch/reduce.h"

namespace shampoo::kernels::cuda {

/// lerp(a, b, w) = w < 1/2 ? a + w (b - a) : b - (1 - w) (b - a), as base + slope (b - a)
template <typename Real>
struct Lerp {
  SHAMPOO_BOTH explicit Lerp(double weight)
      : from_a(static_cast<Real>(weight) < Real(0.5)),
        slope(from_a ? static_cast<Real>(weight) : -(Real(1) - static_cast<Real>(weight))) {}

  SHAMPOO_BOTH Real operator()(Real a, Real b) const { return (from_a ? a : b) + slope * (b - a); }

  bool from_a;
  Real slope;
};

/// V, M and F of a step, and partials[tile] <- sum of squares of the grafted gradient. One block
/// of threads per tile.
template <typename Real>
struct FilterTile {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = sizeof(Real) == 4 ? 3 : 2;
  struct Shared {
    double sums[threads];
  };

  PhaseByValue phase;
  Filter slots;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// What one block makes of an element.
template <typename Real>
struct FilterRule {
  SHAMPOO_BOTH FilterRule(const Coefficients& c, Mode mode, Graft graft)
      : first(c.first_weight),
        filtered(c.filter_weight),
        filter_scale(static_cast<Real>(c.filter_scale)),
        keep(static_cast<Real>(c.graft_keep)),
        add(static_cast<Real>(c.graft_add)),
        graft_scale(static_cast<Real>(c.graft_scale)),
        epsilon(static_cast<Real>(c.graft_epsilon)),
        filters(c.first_weight != 1),
        diagonal(graft == Graft::diagonal),
        graft_is_direction(diagonal && mode == Mode::graft_only),
        wants_norm(mode == Mode::grafted && graft != Graft::none),
        grafts(graft_is_direction || (wants_norm && diagonal)) {}

  /// F / (sqrt(V scale) + epsilon)
  SHAMPOO_BOTH Real grafted(Real f, Real v) const {
    return f / (std::sqrt(v * graft_scale) + epsilon);
  }

  Lerp<Real> first, filtered;
  Real filter_scale, keep, add, graft_scale, epsilon;
  bool filters, diagonal, graft_is_direction, wants_norm, grafts;
};

/// F <- lerp(M, G, filter_weight) filter_scale ; M <- lerp(M, G, first_weight). Without a filter,
/// first_weight = 1, F <- G and M stays. V <- keep V + add G^2. Returns the squares' sum.
template <typename Real>
SHAMPOO_BOTH double filter_group(const FilterRule<Real>& rule, const Gradient<Real>& gradient,
                                 const Strip& moment, const Strip& graft_moment,
                                 const Strip& direction, std::int32_t i, std::int32_t count) {
  Real m[group_size], v[group_size], g[group_size];
  if (rule.filters) read(moment, i, count, m);
  if (rule.diagonal) read(graft_moment, i, count, v);
  gradient.read(i, count, g);

  if (rule.diagonal) {
    for (int k = 0; k < group_size; ++k) v[k] = rule.keep * v[k] + rule.add * (g[k] * g[k]);
    write(graft_moment, i, count, v);
  }
  if (rule.filters) {
    for (int k = 0; k < group_size; ++k) {
      const Real f = rule.filtered(m[k], g[k]) * rule.filter_scale;
      m[k] = rule.first(m[k], g[k]);
      g[k] = f;
    }
    write(moment, i, count, m);
  }
  double sum = 0;
  for (int k = 0; k < group_size; ++k) {
    m[k] = rule.grafts ? rule.grafted(g[k], v[k]) : g[k];
    if (rule.graft_is_direction) g[k] = m[k];
  }
  write(direction, i, count, g);
  if (rule.wants_norm) {
    for (int k = 0; k < group_size; ++k)
      if (k < count) sum += static_cast<double>(m[k]) * static_cast<double>(m[k]);
  }
  return sum;
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void FilterTile<Real>::operator()(Threads& block, Shared& shared) const {
  if (*phase.proceed == 0) return;
  const std::int64_t index = block.index();
  const Tile tile = phase.elements.tiles[index];
  const Mode mode = phase.modes[tile.block];
  if (mode == Mode::absent) return;
  const FilterRule<Real> rule(phase.coefficients[tile.block], mode, slots.graft);
  const Gradient<Real> gradient(phase, tile, phase.elements.blocks[tile.block], slots.masters);
  const auto slot = [&](void* first) {
    return packed(first == nullptr ? nullptr : static_cast<Real*>(first) + tile.flat,
                  type_of_real<Real>);
  };
  const Strip moment = slot(slots.first_moment), graft_moment = slot(slots.graft_moment);
  const Strip direction = slot(slots.direction);

  block.each([&](int thread) {
    double sum = 0;
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      sum += filter_group(rule, gradient, moment, graft_moment, direction, i, count);
    });
    shared.sums[thread] = sum;
  });
  if (!rule.wants_norm) return;
  reduce(block, shared.sums, [](double a, double b) { return a + b; });
  block.each([&](int thread) {
    if (thread == 0) phase.elements.partials[index] = shared.sums[0];
  });
}

/// norms[block] <- the sum of its partials, in the order of its tiles, for grafted blocks. One
/// thread per block.
struct SumTiles {
  static constexpr int threads = 128;
  struct Shared {};

  TileTable elements;
  const Mode* modes = nullptr;
  const std::int32_t* proceed = nullptr;
  double* norms = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const {
    if (*proceed == 0) return;
    block.each([&](int thread) {
      const std::int64_t i = block.index() * threads + thread;
      if (i >= elements.block_count || modes[i] != Mode::grafted) return;
      const Block& b = elements.blocks[i];
      double sum = 0;
      for (std::int32_t k = 0; k < b.tile_count; ++k) sum += elements.partials[b.first_tile + k];
      norms[i] = sum;
    });
  }
};

}  // namespace shampoo::kernels::cuda
