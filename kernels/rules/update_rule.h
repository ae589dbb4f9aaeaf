// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include "kernels/elementwise.h"
#include "kernels/rules/arithmetic.h"

namespace shampoo::kernels {

/// Factors of one block.
struct DirectionFactors {
  double direction = 1;  ///< of P
  double decay = 1;      ///< of decay W
  double step = 1;       ///< of the learning rate
};

/// The end of a step, for the elements of one block.
template <typename Real>
struct UpdateRule {
  SHAMPOO_RULE UpdateRule(const Coefficients& c, const DirectionFactors& factors,
                          AveragingRule averaging)
      : ratio(static_cast<Real>(factors.direction)),
        decay(static_cast<Real>(c.decay * factors.decay)),
        momentum(static_cast<Real>(c.momentum)),
        damp(static_cast<Real>(c.damp)),
        step(static_cast<Real>(c.step * factors.step)),
        decays(c.decay != 0),
        averages((averaging == AveragingRule::momentum || averaging == AveragingRule::nesterov) &&
                 c.momentum != 0),
        iterates(averaging == AveragingRule::iterate),
        nesterov(averaging == AveragingRule::nesterov) {}

  SHAMPOO_RULE Real scaled(Real p) const { return p * ratio; }
  /// P <- P + decay W
  SHAMPOO_RULE Real decayed(Real p, Real w) const { return p + decay * w; }
  /// B <- momentum B + damp P [Polyak 1964]
  SHAMPOO_RULE Real accumulated(Real b, Real p) const { return momentum * b + damp * p; }
  /// The new B, or the old one where it is not finite: its element takes no step.
  SHAMPOO_RULE Real kept(Real accumulated, Real old) const {
    return is_finite(accumulated) ? accumulated : old;
  }
  /// P <- nesterov ? damp P + momentum B : B, with the new B [Sutskever 2013]
  SHAMPOO_RULE Real averaged(Real b, Real p) const {
    return nesterov ? damp * p + momentum * b : b;
  }
  /// U = step P
  SHAMPOO_RULE Real stepped(Real p) const { return p * step; }

  Real ratio, decay, momentum, damp, step;
  bool decays, averages, iterates, nesterov;
};

/// Averages of an iterate Z [Defazio 2024], [Defazio 2025b]: W = mu_y X + (1 - mu_y) Z is trained,
/// X <- mu_x X + (1 - mu_x) Z is not stored. P is the step of Z.
template <typename Real>
struct IterateRule {
  SHAMPOO_RULE explicit IterateRule(const Coefficients& c)
      : keep(static_cast<Real>(c.iterate_keep)),
        pull(static_cast<Real>(c.iterate_pull)),
        weight(static_cast<Real>(c.iterate_weight)) {}

  /// Z <- keep Z
  SHAMPOO_RULE Real decayed(Real z) const { return keep * z; }
  /// U = weight P + pull (Z - W), with the Z that is decayed and not stepped
  SHAMPOO_RULE Real update(Real p, Real z, Real w) const { return weight * p + pull * (z - w); }

  Real keep, pull, weight;
};

/// X = W + extrapolation (Z - W), with extrapolation = 1 - 1 / mu_y; Z where it is 1
template <typename Real>
struct EvaluationRule {
  SHAMPOO_RULE explicit EvaluationRule(double factor)
      : extrapolation(static_cast<Real>(factor)), copies(factor == 1) {}

  SHAMPOO_RULE Real operator()(Real w, Real z) const {
    return copies ? z : w + extrapolation * (z - w);
  }

  Real extrapolation;
  bool copies;
};

/// A <- A + weight (W - A); W where the weight is 1
template <typename Real>
struct ValueAverageRule {
  SHAMPOO_RULE explicit ValueAverageRule(double new_weight)
      : weight(static_cast<Real>(new_weight)), copies(new_weight == 1) {}

  SHAMPOO_RULE Real operator()(Real a, Real w) const { return copies ? w : a + weight * (w - a); }

  Real weight;
  bool copies;
};

/// W, projected: see ValueProjection.
template <typename Real>
struct ProjectedValue {
  SHAMPOO_RULE ProjectedValue(const ValueProjection& of, std::int32_t block)
      : bounds(of.rule == ProjectionRule::bounds),
        lower(static_cast<Real>(of.lower)),
        upper(static_cast<Real>(of.upper)) {
    if (bounds) return;
    const double norm = root(of.squared_norms[block]);
    if (norm > 0 && is_finite(norm)) scale = static_cast<Real>(1 / norm);
  }

  SHAMPOO_RULE Real operator()(Real w) const {
    if (!bounds) return w * scale;
    return w < lower ? lower : w > upper ? upper : w;
  }

  bool bounds;
  Real lower, upper, scale = 1;
};

/// True if values and segment are converted, and W + U is computed, in double: the wider of both
/// types.
SHAMPOO_RULE bool moves_in_double(Type segment, Type values) {
  return segment == Type::float64 || values == Type::float64;
}

/// Least magnitude that a segment's or the values' type rounds to infinity, where one has 16 bits
/// after rounding to float32, as a master is.
template <typename Real>
SHAMPOO_RULE Real overflow_threshold(Type segment, Type values) {
  // Halfway between a type's largest number and the next power of two, ties round up: 0x1.ffep15 in
  // float16; 0x1.ffp127 in bfloat16, and 0x1.ffp15 to 2^16, which float16 lacks. With 16 bits, half
  // a last place of float32 below these.
  if (segment == Type::bfloat16 && values == Type::float16) return Real(0x1.feffffp15);
  if (segment == Type::float16 || values == Type::float16) return Real(0x1.ffdfffp15);
  if (segment == Type::bfloat16 || values == Type::bfloat16) return Real(0x1.feffffp127);
  if constexpr (sizeof(Real) == sizeof(double))
    if (segment == Type::float32 || values == Type::float32) return Real(0x1.ffffffp127);
  return static_cast<Real>(INFINITY);
}

/// W + U, or W where that is not finite in types with this overflow threshold.
template <typename Real>
SHAMPOO_RULE Real added(Real w, Real u, Real threshold) {
  const Real sum = w + u;
  return sum < threshold && -sum < threshold ? sum : w;
}

}  // namespace shampoo::kernels
