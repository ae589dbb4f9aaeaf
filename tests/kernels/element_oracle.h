// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tests/kernels/mixes.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"
#include "tests/support/device/backends.h"

/// The formulas element by element, with every operation rounded to the arithmetic type as the
/// kernels promise: results are equal, not near. Only sums over a block have a tolerance: they are
/// in double precision, so with n terms they differ from another order by at most n * 2^-53 of the
/// sum of the terms, which are positive.
namespace shampoo::test {

template <typename Real>
Real lerp(Real a, Real b, Real weight) {
  return weight < Real(0.5) ? a + weight * (b - a) : b - (b - a) * (Real(1) - weight);
}

/// F or F / (sqrt(R scale) + epsilon), with V <- keep V + add G^2 and R = V; maximal: R is the
/// largest V, x; centered: R = V - x^2 with the mean x <- lerp(x, G, add).
template <typename Real>
Real direct(kernels::DirectionRule rule, const kernels::SecondMoment& c, Real g, Real f, Real& v,
            Real& x) {
  if (rule == kernels::DirectionRule::identity) return f;
  v = static_cast<Real>(c.keep) * v + static_cast<Real>(c.add) * (g * g);
  Real radicand = v;
  if (rule == kernels::DirectionRule::maximal) radicand = x = std::max(x, v);
  if (rule == kernels::DirectionRule::centered) {
    x = lerp(x, g, static_cast<Real>(c.add));
    radicand = std::max(v - x * x, Real(0));
  }
  return f / (std::sqrt(radicand * static_cast<Real>(c.scale)) + static_cast<Real>(c.epsilon));
}

/// The old state of one element.
template <typename Real>
struct Element {
  Element(Table& t, std::size_t b, std::int64_t i)
      : c(t.coefficients[b]),
        w(static_cast<Real>(
            t.blocks[b].master >= 0
                ? read(t.masters.data() + 4 * (t.blocks[b].master + i), Type::float32)
                : t.value(b, i))),
        m(static_cast<Real>(t.slot(t.first_moment, t.blocks[b].flat + i))),
        v(static_cast<Real>(t.slot(t.second_moment, t.blocks[b].flat + i))),
        x(static_cast<Real>(t.slot(t.companion, t.blocks[b].flat + i))),
        grafting_v(static_cast<Real>(t.slot(t.grafting_moment, t.blocks[b].flat + i))),
        grafting_x(static_cast<Real>(t.slot(t.grafting_companion, t.blocks[b].flat + i))),
        d(static_cast<Real>(t.slot(t.direction, t.blocks[b].flat + i))),
        momentum(static_cast<Real>(t.slot(t.momentum, t.blocks[b].flat + i))) {
    if (t.modes[b] == kernels::Mode::absent) return;
    g = static_cast<Real>(t.gradient(b, i)) * static_cast<Real>(t.scale * c.gradient_sign);
    if (c.l2 != 0) g = g + static_cast<Real>(c.l2) * w;
  }

  void filter(kernels::DirectionRule preconditioner,
              std::optional<kernels::DirectionRule> grafting) {
    f = c.first_weight == 1
            ? g
            : lerp(m, g, static_cast<Real>(c.filter_weight)) * static_cast<Real>(c.filter_scale);
    if (c.first_weight != 1) m = lerp(m, g, static_cast<Real>(c.first_weight));
    preconditioned = direct(preconditioner, c.preconditioner, g, f, v, x);
    grafted = grafting ? direct(*grafting, c.grafting, g, f, grafting_v, grafting_x) : f;
  }

  /// U
  Real update(Real s, kernels::AveragingRule averaging) {
    Real p = d * s;
    if (c.decay != 0) p = p + static_cast<Real>(c.decay) * w;
    const Real damp = static_cast<Real>(c.damp), keep = static_cast<Real>(c.momentum);
    if (averaging == kernels::AveragingRule::iterate) {
      p = p * static_cast<Real>(c.step);
      const Real decayed = static_cast<Real>(c.iterate_keep) * momentum;
      momentum = decayed + p;
      return static_cast<Real>(c.iterate_weight) * p +
             static_cast<Real>(c.iterate_pull) * (decayed - w);
    }
    if (averaging != kernels::AveragingRule::none && c.momentum != 0) {
      momentum = keep * momentum + damp * p;
      p = averaging == kernels::AveragingRule::nesterov ? damp * p + keep * momentum : momentum;
    }
    return p * static_cast<Real>(c.step);
  }

  kernels::Coefficients c;
  Real w, m, v, x, grafting_v, grafting_x, d, momentum, g = 0, f = 0, preconditioned = 0,
                                                        grafted = 0;
};

template <typename Tested>
class Elementwise : public AtPlace<Tested> {
 protected:
  static constexpr Type real = type_of<typename Tested::Real>;
  static constexpr Cut cut{.block_side = 400, .tile_elements = 1000};

  Table before{all_mixes(), real, cut}, after{all_mixes(), real, cut};
};

struct Pass {
  kernels::DirectionRule preconditioner;
  std::optional<kernels::DirectionRule> grafting;
  bool direction_norms;

  kernels::GradientPass on(Table& t) const {
    using enum kernels::DirectionRule;
    kernels::GradientPass pass = t.gradient_pass();
    const auto direction = [](kernels::DirectionRule rule, Bytes& v, Bytes& x) {
      return kernels::ElementwiseDirection{
          rule, rule == identity ? nullptr : v.data(),
          rule == maximal || rule == centered ? x.data() : nullptr};
    };
    pass.preconditioner = direction(preconditioner, t.second_moment, t.companion);
    pass.grafting.reset();
    pass.grafting_norms = grafting ? t.grafting_norms.data() : nullptr;
    if (grafting) pass.grafting = direction(*grafting, t.grafting_moment, t.grafting_companion);
    if (direction_norms) pass.direction_norms = t.direction_norms.data();
    return pass;
  }
};

inline std::vector<Pass> all_passes() {
  using enum kernels::DirectionRule;
  std::vector<Pass> passes = {{maximal, centered, true}, {centered, maximal, true}};
  for (const kernels::DirectionRule preconditioner : {identity, diagonal})
    for (const std::optional<kernels::DirectionRule> grafting :
         {std::optional<kernels::DirectionRule>(), std::optional(identity),
          std::optional(diagonal)})
      for (const bool norms : {false, true}) passes.push_back({preconditioner, grafting, norms});
  return passes;
}

}  // namespace shampoo::test
