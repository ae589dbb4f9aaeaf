// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_access.h"
#include "kernels/cpu/simd/vector_sums.h"
#include "kernels/cpu/simd/vector_values.h"
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
TileNorms filter(const Work& work, const GradientPass& pass, const ElementwiseDirection* grafting) {
  const std::int64_t count = elements_of(work.tile);
  Real* const p = static_cast<Real*>(pass.direction) + work.tile.flat;
  TileFilter<Real> tile(work, pass, grafting);
  for (std::int64_t first = 0; first < count; first += chunk)
    tile(first, least(chunk, count - first), p + first);
  return tile.norms();
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

/// update() of one tile, a chunk at a time.
template <typename Real>
class TileUpdate {
 public:
  TileUpdate(const Work& work, const UpdatePass& pass)
      : work_(work),
        block_(work.block),
        rule_(work.coefficients, norm_ratio(pass, work.mode, work.tile.block), pass.averaging),
        average_(static_cast<Real*>(pass.averaging_state)),
        master_(static_cast<float*>(pass.masters)) {
    const std::int64_t at = offset_in_block(work);
    if (average_ != nullptr) average_ += work.tile.flat;
    if (block_.master >= 0) master_ += block_.master + at;
    if (pass.segment != nullptr)
      segment_ = static_cast<char*>(pass.segment) + block_.segment + at * bytes();
  }

  /// `direction` is P of elements [first, first + count).
  void operator()(std::int64_t first, std::int64_t count, const Real* direction) const {
    if (segment_ != nullptr)
      return send(first, count, direction,
                  consecutive(segment_ + first * bytes(), block_.wire_type));

    alignas(64) char sent[chunk * sizeof(double)];
    send(first, count, direction, consecutive(sent, block_.wire_type));
    const Strided<const void*> received =
        consecutive(static_cast<const void*>(sent), block_.wire_type);
    if (moves_in_double(block_.wire_type, work_.tensors.value_types[work_.tile.tensor]))
      apply_chunk<double>(work_, received, first, count);
    else
      apply_chunk<float>(work_, received, first, count);
  }

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(block_.wire_type)); }

  /// segment <- U, or the new value
  void send(std::int64_t first, std::int64_t count, const Real* direction,
            const Strided<void*>& segment) const {
    alignas(64) Real buffer[chunk];
    // Where U is sent as it is, it is made in the segment.
    Real* const sent = block_.master < 0 ? in_place<Real>(segment, 0, count) : nullptr;
    Real* const p = sent != nullptr ? sent : buffer;
    scale_and_decay(work_, rule_, direction, first, count, p);
    if (rule_.averages) average(rule_, count, average_ + first, p);

    for (std::int64_t i = 0; i < count; ++i) p[i] = rule_.stepped(p[i]);
    if (rule_.iterates) average_iterate(work_, first, count, average_ + first, p);
    if (block_.master < 0) {
      if (block_.is_value) add_values(work_, first, count, p);
      if (sent == nullptr) write(segment, 0, count, p);
      return;
    }
    float* const master = master_ + first;
    for (std::int64_t i = 0; i < count; ++i)
      master[i] = stored<float>(added(real<Real>(master[i]), p[i]));
    write(segment, 0, count, master);
  }

  const Work& work_;
  const Block& block_;
  UpdateRule<Real> rule_;
  Real* average_;
  float* master_;
  char* segment_ = nullptr;  ///< of the tile; null: the values change
};

template <typename Real>
void update(const Work& work, const UpdatePass& pass) {
  const std::int64_t count = elements_of(work.tile);
  const Real* const p = static_cast<const Real*>(pass.direction) + work.tile.flat;
  const TileUpdate<Real> tile(work, pass);
  for (std::int64_t first = 0; first < count; first += chunk)
    tile(first, least(chunk, count - first), p + first);
}

template <typename Real>
void filter_and_update(const Work& work, const GradientPass& gradients, const UpdatePass& pass) {
  const std::int64_t count = elements_of(work.tile);
  TileFilter<Real> filter(work, gradients, nullptr);
  const TileUpdate<Real> update(work, pass);
  alignas(64) Real p[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    filter(first, n, p);
    update(first, n, p);
  }
}

}  // namespace
}  // namespace shampoo::kernels
