// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_access.h"
#include "kernels/cpu/simd/vector_sums.h"
#include "kernels/rules/direction.h"
#include "kernels/rules/grafting.h"
#include "kernels/rules/update_rule.h"

/// The elementwise kernels, on one tile each. Internal linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

template <typename Real>
bool all_finite(const Tensors& tensors, const Tile& tile, Real scale) {
  const std::int64_t count = elements_of(tile);
  Real g[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    read(gradient_of(tensors, tile), first, n, g);
    for (std::int64_t i = 0; i < n; ++i)
      if (!is_finite(g[i] * scale)) return false;
  }
  return true;
}

template <typename Real>
double scan(const Tensors& tensors, const Tile& tile, double gradient_scale) {
  const std::int64_t count = elements_of(tile);
  const Strided<const void*> at = gradient_of(tensors, tile);
  const Real scale = static_cast<Real>(gradient_scale);
  alignas(64) Real buffer[chunk];
  ProductSum squares;
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    const Real* g = fetch(at, first, n, buffer);
    if (scale != 1) {
      for (std::int64_t i = 0; i < n; ++i) buffer[i] = scale * g[i];
      g = buffer;
    }
    squares.add(g, g, n);
  }
  // The sum is not finite either if the squares of large elements overflow.
  const double sum = squares.total();
  return is_finite(sum) || all_finite(tensors, tile, scale) ? sum : __builtin_nan("");
}

template <typename Real>
void gather(const Work& work, Real* to) {
  const std::int64_t count = elements_of(work.tile);
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    const Real* const g = fetch_gradient(work, first, n, to + first);
    if (g != to + first)
      __builtin_memcpy(to + first, g, static_cast<std::size_t>(n) * sizeof(Real));
  }
}

/// F and M; see FilterRule.
template <typename Real>
void filter_moment(const FilterRule<Real> rule, const Real* __restrict g, std::int64_t count,
                   Real* __restrict m, Real* __restrict f) {
  if (!rule.filters) {
    for (std::int64_t i = 0; i < count; ++i) f[i] = g[i];
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    f[i] = rule.filtered(m[i], g[i]);
    m[i] = rule.moment(m[i], g[i]);
  }
}

/// V, and its companion x if it has one
template <typename Direction, typename Real>
void accumulate(const Direction direction, const Real* __restrict g, std::int64_t count,
                Real* __restrict v, Real* __restrict x) {
  for (std::int64_t i = 0; i < count; ++i) {
    v[i] = direction.accumulated(v[i], g[i]);
    if constexpr (Direction::has_companion) x[i] = direction.accompanied(x[i], v[i], g[i]);
  }
}

template <typename Direction, typename Real>
void direct(const Direction direction, const Real* __restrict v, const Real* __restrict x,
            std::int64_t count, const Real* f, Real* to) {
  if constexpr (Direction::has_companion)
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = direction(f[i], direction.radicand(v[i], x[i]));
  else if constexpr (Direction::has_second_moment)
    for (std::int64_t i = 0; i < count; ++i) to[i] = direction(f[i], v[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = direction(f[i], Real(0));
}

/// An ElementwiseDirection of one block.
template <typename Real>
class BlockDirection {
 public:
  BlockDirection(const ElementwiseDirection& direction, const SecondMoment& c, std::int64_t flat)
      : rule_(direction.rule),
        c_(c),
        v_(static_cast<Real*>(direction.second_moment)),
        x_(static_cast<Real*>(direction.companion)) {
    if (v_ != nullptr) v_ += flat;
    if (x_ != nullptr) x_ += flat;
  }

  /// V and its companion, of elements [first, first + count)
  void accumulate_gradient(const Real* g, std::int64_t first, std::int64_t count) const {
    with_direction(rule_, c_, [&](const auto direction) {
      if constexpr (direction.has_second_moment)
        accumulate(direction, g, count, v_ + first, direction.has_companion ? x_ + first : nullptr);
    });
  }

  /// The direction of f, in `to`, or f where it is the same.
  const Real* apply(const Real* f, std::int64_t first, std::int64_t count, Real* to) const {
    const Real* result = to;
    with_direction(rule_, c_, [&](const auto direction) {
      if constexpr (direction.is_identity)
        result = f;
      else
        direct(direction, direction.has_second_moment ? v_ + first : nullptr,
               direction.has_companion ? x_ + first : nullptr, count, f, to);
    });
    return result;
  }

 private:
  DirectionRule rule_;
  SecondMomentRule<Real> c_;
  Real *v_, *x_;
};

template <typename Real>
TileNorms filter(const Work& work, const GradientPass& pass,
                 const ElementwiseDirection* grafting_direction) {
  const std::int64_t count = elements_of(work.tile), flat = work.tile.flat;
  Real* const m = static_cast<Real*>(pass.first_moment);
  Real* const p = static_cast<Real*>(pass.direction) + flat;
  const bool has_grafting = grafting_direction != nullptr;
  const DirectionUse use(work.mode, has_grafting, pass.grafting_norms, pass.direction_norms);
  const FilterRule<Real> rule(work.coefficients);
  const BlockDirection<Real> preconditioner(pass.preconditioner, work.coefficients.preconditioner,
                                            flat);
  const BlockDirection<Real> grafting(has_grafting ? *grafting_direction : ElementwiseDirection{},
                                      work.coefficients.grafting, flat);

  alignas(64) Real buffer[chunk];
  ProductSum grafting_norm, direction_norm;
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    Real* const f = p + first;
    const Real* const g = fetch_gradient(work, first, n, buffer);
    filter_moment(rule, g, n, m == nullptr ? nullptr : m + flat + first, f);
    preconditioner.accumulate_gradient(g, first, n);
    grafting.accumulate_gradient(g, first, n);

    if (use.grafts) grafting.apply(f, first, n, f);
    if (use.grafting_norm) {
      const Real* const grafted = grafting.apply(f, first, n, buffer);
      grafting_norm.add(grafted, grafted, n);
    }
    if (use.preconditions) preconditioner.apply(f, first, n, f);
    if (use.direction_norm) direction_norm.add(f, f, n);
  }
  return {grafting_norm.total(), direction_norm.total()};
}

/// P <- ratio P + decay W
template <typename Real>
void scale_and_decay(const Work& work, const UpdateRule<Real> rule,
                     const Real* __restrict direction, std::int64_t first, std::int64_t count,
                     Real* __restrict p) {
  if (!rule.decays) {
    for (std::int64_t i = 0; i < count; ++i) p[i] = rule.scaled(direction[i]);
    return;
  }
  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i) p[i] = rule.decayed(rule.scaled(direction[i]), w[i]);
}

/// B and P
template <typename Real>
void average(const UpdateRule<Real> rule, std::int64_t count, Real* __restrict b,
             Real* __restrict p) {
  for (std::int64_t i = 0; i < count; ++i) {
    b[i] = rule.accumulated(b[i], p[i]);
    p[i] = rule.averaged(b[i], p[i]);
  }
}

/// Z and U, of the step P
template <typename Real>
void average_iterate(const Work& work, std::int64_t first, std::int64_t count, Real* __restrict z,
                     Real* __restrict p) {
  const IterateRule<Real> rule(work.coefficients);
  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i) {
    const Real decayed = rule.decayed(z[i]);
    z[i] = added(decayed, p[i]);
    p[i] = rule.update(p[i], decayed, w[i]);
  }
}

/// P <- W + P
template <typename Real>
void add_values(const Work& work, std::int64_t first, std::int64_t count, Real* __restrict p) {
  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i) p[i] = added(w[i], p[i]);
}

template <typename Real>
void update(const Work& work, const UpdatePass& pass) {
  const Block& block = work.block;
  const std::int64_t count = elements_of(work.tile), flat = work.tile.flat;
  const UpdateRule<Real> rule(work.coefficients, norm_ratio(pass, work.mode, work.tile.block),
                              pass.averaging);
  const Strided<void*> segment =
      consecutive(static_cast<char*>(pass.segment) + block.segment, block.wire_type);

  alignas(64) Real buffer[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first), at = offset_in_block(work) + first;
    // Where U is sent as it is, it is made in the segment.
    Real* const sent = block.master < 0 ? in_place<Real>(segment, at, n) : nullptr;
    Real* const p = sent != nullptr ? sent : buffer;
    scale_and_decay(work, rule, static_cast<const Real*>(pass.direction) + flat + first, first, n,
                    p);
    if (rule.averages) average(rule, n, static_cast<Real*>(pass.averaging_state) + flat + first, p);

    // U, or the new value
    for (std::int64_t i = 0; i < n; ++i) p[i] = rule.stepped(p[i]);
    if (rule.iterates)
      average_iterate(work, first, n, static_cast<Real*>(pass.averaging_state) + flat + first, p);
    if (block.master < 0) {
      if (block.is_value) add_values(work, first, n, p);
      if (sent == nullptr) write(segment, at, n, p);
      continue;
    }
    float* const master = static_cast<float*>(pass.masters) + block.master + at;
    for (std::int64_t i = 0; i < n; ++i)
      master[i] = stored<float>(added(real<Real>(master[i]), p[i]));
    write(segment, at, n, master);
  }
}

}  // namespace
}  // namespace shampoo::kernels
