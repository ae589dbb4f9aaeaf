// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rules/arithmetic.h"

namespace shampoo::kernels {

/// G = clip(scale sign g) + l2 W
template <typename Real>
struct GradientRule {
  SHAMPOO_RULE GradientRule(double gradient_scale, double gradient_limit, const Coefficients& c)
      : scale(static_cast<Real>(gradient_scale * c.gradient_sign)),
        limit(static_cast<Real>(gradient_limit)),
        l2(static_cast<Real>(c.l2)),
        scales(gradient_scale * c.gradient_sign != 1 || gradient_limit < __builtin_huge_val()),
        decays(c.l2 != 0) {}

  /// scale g, in [-limit, limit] unless it is NaN
  SHAMPOO_RULE Real scaled(Real g) const {
    const Real s = scale * g;
    return s > limit ? limit : s < -limit ? -limit : s;
  }
  SHAMPOO_RULE Real decayed(Real g, Real w) const { return g + l2 * w; }

  Real scale, limit, l2;
  bool scales, decays;
};

/// W <- keep W + add g, and W <- add g where keep is 0.
template <typename Real>
struct AccumulateRule {
  SHAMPOO_RULE AccumulateRule(double keep_weight, double add_weight)
      : keep(static_cast<Real>(keep_weight)),
        add(static_cast<Real>(add_weight)),
        keeps(keep_weight != 0) {}

  SHAMPOO_RULE Real kept(Real w) const { return keeps ? keep * w : Real(0); }
  SHAMPOO_RULE Real operator()(Real w, Real g) const {
    return keeps ? keep * w + add * g : add * g;
  }

  Real keep, add;
  bool keeps;
};

/// First moment and bias-corrected filtered gradient. Without a filter, first_weight = 1, F <- G
/// and M is left alone.
template <typename Real>
struct FilterRule {
  SHAMPOO_RULE explicit FilterRule(const Coefficients& c)
      : first(c.first_weight),
        weighted(c.filter_weight),
        scale(static_cast<Real>(c.filter_scale)),
        filters(c.first_weight != 1) {}

  /// F <- lerp(M, G, filter_weight) filter_scale, of the old M
  SHAMPOO_RULE Real filtered(Real m, Real g) const { return weighted(m, g) * scale; }
  /// M <- lerp(M, G, first_weight)
  SHAMPOO_RULE Real moment(Real m, Real g) const { return first(m, g); }

  Lerp<Real> first, weighted;
  Real scale;
  bool filters;
};

}  // namespace shampoo::kernels
