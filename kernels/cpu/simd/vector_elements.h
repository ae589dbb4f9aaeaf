// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_access.h"
#include "kernels/cpu/simd/vector_sums.h"
#include "kernels/rules/direction.h"

/// The passes over gradients, on one tile each. Internal linkage: see vector_access.h.
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

/// F alone
template <typename Real>
void read_filtered(const Work& work, const GradientPass& pass, Real* f) {
  const FilterRule<Real> rule(work.coefficients);
  if (!rule.filters) return gather(work, f);
  const Real* const m = static_cast<const Real*>(pass.first_moment) + work.tile.flat;
  const std::int64_t count = elements_of(work.tile);
  for (std::int64_t first = 0; first < count; first += chunk) {
    alignas(64) Real buffer[chunk];
    const std::int64_t n = least(chunk, count - first);
    const Real* const g = fetch_gradient(work, first, n, buffer);
    for (std::int64_t i = 0; i < n; ++i) f[first + i] = rule.filtered(m[first + i], g[i]);
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

/// filter() of one tile, a chunk at a time.
template <typename Real>
class TileFilter {
 public:
  /// `grafting` is the pass's, or null.
  TileFilter(const Work& work, const GradientPass& pass, const ElementwiseDirection* grafting)
      : work_(work),
        use_(work.mode, grafting != nullptr, pass.grafting_norms, pass.direction_norms),
        rule_(work.coefficients),
        m_(static_cast<Real*>(pass.first_moment)),
        preconditioner_(pass.preconditioner, work.coefficients.preconditioner, work.tile.flat),
        grafting_(grafting != nullptr ? *grafting : ElementwiseDirection{},
                  work.coefficients.grafting, work.tile.flat) {
    if (m_ != nullptr) m_ += work.tile.flat;
  }

  /// P of elements [first, first + count), in `p`
  void operator()(std::int64_t first, std::int64_t count, Real* p) {
    alignas(64) Real buffer[chunk];
    const Real* const g = fetch_gradient(work_, first, count, buffer);
    filter_moment(rule_, g, count, m_ == nullptr ? nullptr : m_ + first, p);
    preconditioner_.accumulate_gradient(g, first, count);
    grafting_.accumulate_gradient(g, first, count);

    if (use_.grafts) grafting_.apply(p, first, count, p);
    if (use_.grafting_norm) {
      const Real* const grafted = grafting_.apply(p, first, count, buffer);
      grafting_norm_.add(grafted, grafted, count);
    }
    if (use_.preconditions) preconditioner_.apply(p, first, count, p);
    if (use_.direction_norm) direction_norm_.add(p, p, count);
  }

  TileNorms norms() const { return {grafting_norm_.total(), direction_norm_.total()}; }

 private:
  const Work& work_;
  DirectionUse use_;
  FilterRule<Real> rule_;
  Real* m_;
  BlockDirection<Real> preconditioner_, grafting_;
  ProductSum grafting_norm_, direction_norm_;
};

template <typename Real>
TileNorms filter(const Work& work, const GradientPass& pass, const ElementwiseDirection* grafting,
                 Real* p) {
  const std::int64_t count = elements_of(work.tile);
  TileFilter<Real> tile(work, pass, grafting);
  for (std::int64_t first = 0; first < count; first += chunk)
    tile(first, least(chunk, count - first), p + first);
  return tile.norms();
}

}  // namespace
}  // namespace shampoo::kernels
