// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_access.h"
#include "kernels/cpu/simd/vector_sums.h"

/// The elementwise kernels, on one tile each. Internal linkage: see vector_types.h.
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
      if (!__builtin_isfinite(g[i] * scale)) return false;
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
  return __builtin_isfinite(sum) || all_finite(tensors, tile, scale) ? sum : __builtin_nan("");
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

/// lerp(a, b, w) = w < 1/2 ? a + w (b - a) : b - (1 - w) (b - a), as base + slope (b - a)
template <typename Real>
struct Lerp {
  explicit Lerp(double weight)
      : from_a(static_cast<Real>(weight) < Real(0.5)),
        slope(from_a ? static_cast<Real>(weight) : -(Real(1) - static_cast<Real>(weight))) {}

  Real operator()(Real a, Real b) const { return (from_a ? a : b) + slope * (b - a); }

  bool from_a;
  Real slope;
};

/// F <- lerp(M, G, filter_weight) filter_scale ; M <- lerp(M, G, first_weight). Without a filter,
/// first_weight = 1, F <- G and M stays.
template <typename Real>
void filter_moment(const Coefficients& c, const Real* __restrict g, std::int64_t count,
                   Real* __restrict m, Real* __restrict f) {
  if (c.first_weight == 1) {
    for (std::int64_t i = 0; i < count; ++i) f[i] = g[i];
    return;
  }
  const Lerp<Real> first(c.first_weight), filtered(c.filter_weight);
  const Real scale = static_cast<Real>(c.filter_scale);
  for (std::int64_t i = 0; i < count; ++i) {
    f[i] = filtered(m[i], g[i]) * scale;
    m[i] = first(m[i], g[i]);
  }
}

/// V <- keep V + add G^2
template <typename Real>
void second_moment(const Coefficients& c, const Real* __restrict g, std::int64_t count,
                   Real* __restrict v) {
  const Real keep = static_cast<Real>(c.graft_keep), add = static_cast<Real>(c.graft_add);
  for (std::int64_t i = 0; i < count; ++i) v[i] = keep * v[i] + add * (g[i] * g[i]);
}

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

/// F / (sqrt(V scale) + epsilon)
template <typename Real>
void graft(const Coefficients& c, const Real* __restrict v, std::int64_t count, const Real* f,
           Real* to) {
  const Real scale = static_cast<Real>(c.graft_scale);
  const Real epsilon = static_cast<Real>(c.graft_epsilon);
  for (std::int64_t i = 0; i < count; ++i) to[i] = f[i] / (root(v[i] * scale) + epsilon);
}

template <typename Real>
double filter(const Work& work, const Filter& slots) {
  const Coefficients& c = work.coefficients;
  const std::int64_t count = elements_of(work.tile), flat = work.tile.flat;
  Real* const m = static_cast<Real*>(slots.first_moment);
  Real* const v = static_cast<Real*>(slots.graft_moment);
  Real* const direction = static_cast<Real*>(slots.direction) + flat;
  const bool diagonal = slots.graft == Graft::diagonal;
  const bool wants_norm = work.mode == Mode::grafted && slots.graft != Graft::none;

  alignas(64) Real buffer[chunk];
  ProductSum norm;
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    Real* const f = direction + first;
    const Real* const g = fetch_gradient(work, first, n, buffer);
    filter_moment(c, g, n, m == nullptr ? nullptr : m + flat + first, f);
    if (diagonal) second_moment(c, g, n, v + flat + first);

    if (diagonal && work.mode == Mode::graft_only) graft(c, v + flat + first, n, f, f);
    if (!wants_norm) continue;
    if (diagonal) graft(c, v + flat + first, n, f, buffer);
    const Real* const grafted = diagonal ? buffer : f;
    norm.add(grafted, grafted, n);
  }
  return norm.total();
}

/// B <- momentum B + damp P ; P <- nesterov ? damp P + momentum B : B
template <typename Real>
void add_momentum(const Coefficients& c, bool nesterov, std::int64_t count, Real* __restrict b,
                  Real* __restrict p) {
  const Real momentum = static_cast<Real>(c.momentum), damp = static_cast<Real>(c.damp);
  for (std::int64_t i = 0; i < count; ++i) {
    b[i] = momentum * b[i] + damp * p[i];
    p[i] = nesterov ? damp * p[i] + momentum * b[i] : b[i];
  }
}

/// P <- direction s + decay W
template <typename Real>
void scaled_and_decayed(const Work& work, const Real* __restrict direction, Real s,
                        std::int64_t first, std::int64_t count, Real* __restrict p) {
  if (work.coefficients.decay == 0) {
    for (std::int64_t i = 0; i < count; ++i) p[i] = direction[i] * s;
    return;
  }
  const Real decay = static_cast<Real>(work.coefficients.decay);
  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i) p[i] = direction[i] * s + decay * w[i];
}

/// P <- W + P
template <typename Real>
void add_values(const Work& work, std::int64_t first, std::int64_t count, Real* __restrict p) {
  alignas(64) Real copied[chunk];
  const Real* const w = fetch_values(work, first, count, copied);
  for (std::int64_t i = 0; i < count; ++i) p[i] = w[i] + p[i];
}

template <typename Real>
void update(const Work& work, const Update& slots, Real s) {
  const Block& block = work.block;
  const std::int64_t count = elements_of(work.tile), flat = work.tile.flat;
  const Real step = static_cast<Real>(work.coefficients.step);
  const Strided<void*> segment =
      consecutive(static_cast<char*>(slots.segment) + block.segment, block.shipped);

  alignas(64) Real buffer[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first), at = offset_in_block(work) + first;
    // Where U is sent as it is, it is made in the segment.
    Real* const sent = block.master < 0 ? in_place<Real>(segment, at, n) : nullptr;
    Real* const p = sent != nullptr ? sent : buffer;
    scaled_and_decayed(work, static_cast<const Real*>(slots.direction) + flat + first, s, first, n,
                       p);
    if (slots.has_momentum)
      add_momentum(work.coefficients, slots.nesterov, n,
                   static_cast<Real*>(slots.momentum) + flat + first, p);

    // U = step P, or the new value
    for (std::int64_t i = 0; i < n; ++i) p[i] *= step;
    if (block.master < 0) {
      if (block.assigns) add_values(work, first, n, p);
      if (sent == nullptr) write(segment, at, n, p);
      continue;
    }
    float* const master = static_cast<float*>(slots.masters) + block.master + at;
    for (std::int64_t i = 0; i < n; ++i)
      master[i] = static_cast<float>(static_cast<Real>(master[i]) + p[i]);
    write(segment, at, n, master);
  }
}

template <typename Real>
void apply(const Work& work, const void* segments) {
  const Block& block = work.block;
  const std::int64_t count = elements_of(work.tile);
  const Strided<const void*> segment =
      consecutive(static_cast<const char*>(segments) + block.segment, block.shipped);
  const Strided<void*> value = value_of(work.tensors, work.tile);

  alignas(64) Real received[chunk], old[chunk], sum[chunk];
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    const Real* const u = fetch(segment, work.tile.flat + first, n, received);
    if (block.assigns) {
      write(value, first, n, u);
      continue;
    }
    const Real* const w = fetch<Real>(
        {value.base, value.type, value.columns, value.row, value.column}, first, n, old);
    for (std::int64_t i = 0; i < n; ++i) sum[i] = w[i] + u[i];
    write(value, first, n, sum);
  }
}

template <typename Real>
void read_masters(const Work& work, float* masters) {
  const std::int64_t count = elements_of(work.tile);
  float* const to = masters + work.block.master + offset_in_block(work);
  const Strided<void*> at = value_of(work.tensors, work.tile);
  read<float>({at.base, at.type, at.columns, at.row, at.column}, 0, count, to);
}

}  // namespace
}  // namespace shampoo::kernels
