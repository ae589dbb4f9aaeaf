// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_access.h"
#include "kernels/rules/power_direction.h"

/// Loops over the elements of a block in its eigenbases. Internal linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

template <typename Real>
void accumulate_squares(const SecondMoment& c, const Real* __restrict g, std::int64_t count,
                        Real* __restrict v) {
  const DiagonalDirection<Real> direction{SecondMomentRule<Real>(c)};
  for (std::int64_t i = 0; i < count; ++i) v[i] = direction.accumulated(v[i], g[i]);
}

template <typename Real>
void divide_by_power(const SecondMoment& c, double exponent, const Real* __restrict v,
                     std::int64_t count, Real* __restrict f) {
  with_exponent<Real>(exponent, c, [&](const auto direction) {
    for (std::int64_t i = 0; i < count; ++i) f[i] = direction(f[i], v[i]);
  });
}

/// F in place of G, and M
template <typename Real>
void filter_in_place(const FilterRule<Real> rule, std::int64_t count, Real* __restrict g,
                     Real* __restrict m) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Real f = rule.filtered(m[i], g[i]);
    m[i] = rule.moment(m[i], g[i]);
    g[i] = f;
  }
}

template <typename Real>
void precondition_gradient(const Coefficients& c, double exponent, Real* g, std::int64_t count,
                           Real* v, Real* m) {
  const FilterRule<Real> rule(c);
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t n = least(chunk, count - first);
    accumulate_squares(c.preconditioner, g + first, n, v + first);
    if (rule.filters) filter_in_place(rule, n, g + first, m + first);
    divide_by_power(c.preconditioner, exponent, v + first, n, g + first);
  }
}

}  // namespace
}  // namespace shampoo::kernels
