// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rules/arithmetic.h"

namespace shampoo::kernels {

/// G = scale sign g + l2 W
template <typename Real>
struct GradientRule {
  SHAMPOO_RULE GradientRule(double gradient_scale, const Coefficients& c)
      : scale(static_cast<Real>(gradient_scale * c.gradient_sign)),
        l2(static_cast<Real>(c.l2)),
        scales(gradient_scale * c.gradient_sign != 1),
        decays(c.l2 != 0) {}

  SHAMPOO_RULE Real scaled(Real g) const { return scale * g; }
  SHAMPOO_RULE Real decayed(Real g, Real w) const { return g + l2 * w; }

  Real scale, l2;
  bool scales, decays;
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
