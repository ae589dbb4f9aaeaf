// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rules/direction.h"

namespace shampoo::kernels {

/// DiagonalDirection with any inverse exponent, of which the power is computed in double.
template <typename Real>
struct PowerDirection : DiagonalDirection<Real> {
  SHAMPOO_RULE PowerDirection(const SecondMomentRule<Real>& coefficients, double inverse_exponent)
      : DiagonalDirection<Real>(coefficients), exponent(inverse_exponent) {}
  /// F / ((V scale)^exponent + epsilon)
  SHAMPOO_RULE Real operator()(Real f, Real v) const {
    const double power = ::pow(static_cast<double>(v * this->c.scale), exponent);
    return f / (static_cast<Real>(power) + this->c.epsilon);
  }

  double exponent;
};

/// body(direction) with the direction of an inverse exponent: a square root where it is 1/2.
template <typename Real, typename Body>
SHAMPOO_RULE void with_exponent(double exponent, const SecondMoment& c, Body&& body) {
  const SecondMomentRule<Real> rule(c);
  if (exponent == 0.5) return body(DiagonalDirection<Real>(rule));
  body(PowerDirection<Real>(rule, exponent));
}

}  // namespace shampoo::kernels
