// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/elementwise.h"
#include "kernels/rules/arithmetic.h"

namespace shampoo::kernels {

/// The end of a step, for the elements of one block.
template <typename Real>
struct UpdateRule {
  SHAMPOO_RULE UpdateRule(const Coefficients& c, double ratio_of_norms, AveragingRule averaging)
      : ratio(static_cast<Real>(ratio_of_norms)),
        decay(static_cast<Real>(c.decay)),
        momentum(static_cast<Real>(c.momentum)),
        damp(static_cast<Real>(c.damp)),
        step(static_cast<Real>(c.step)),
        decays(c.decay != 0),
        averages(averaging != AveragingRule::none && c.momentum != 0),
        nesterov(averaging == AveragingRule::nesterov) {}

  SHAMPOO_RULE Real scaled(Real p) const { return p * ratio; }
  /// P <- P + decay W
  SHAMPOO_RULE Real decayed(Real p, Real w) const { return p + decay * w; }
  /// B <- momentum B + damp P [Polyak 1964]
  SHAMPOO_RULE Real accumulated(Real b, Real p) const { return momentum * b + damp * p; }
  /// P <- nesterov ? damp P + momentum B : B, with the new B [Sutskever 2013]
  SHAMPOO_RULE Real averaged(Real b, Real p) const {
    return nesterov ? damp * p + momentum * b : b;
  }
  /// U = step P
  SHAMPOO_RULE Real stepped(Real p) const { return p * step; }

  Real ratio, decay, momentum, damp, step;
  bool decays, averages, nesterov;
};

/// W + U
template <typename Real>
SHAMPOO_RULE Real added(Real w, Real u) {
  return w + u;
}

}  // namespace shampoo::kernels
