// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/rules/host_device.h"
#include "kernels/solvers/solver_arguments.h"

namespace shampoo::kernels {

/// Machine epsilon.
template <typename Real>
SHAMPOO_BOTH constexpr Real epsilon_of() {
  return sizeof(Real) == sizeof(float) ? Real(0x1p-23) : Real(0x1p-52);
}

/// As in std::max and std::min, a number that is not one stays where it is first.
template <typename Real>
SHAMPOO_BOTH constexpr Real larger_of(Real a, Real b) {
  return a < b ? b : a;
}
template <typename Real>
SHAMPOO_BOTH constexpr Real smaller_of(Real a, Real b) {
  return b < a ? b : a;
}

/// How the eigenvalues of one matrix become those of its root.
template <typename Real>
struct SpectrumRule {
  Real subtracted = 0, added = 0;  ///< the shift
  Real usual = 0;                  ///< what a rule adds to a matrix that needs no shift
  Real floor = 0, cutoff = 0;
  bool cuts = false, has_floor = false;
  double exponent = 1;

  SHAMPOO_BOTH SpectrumRule(const Spectrum& spectrum, std::int64_t row, Real least, Real largest,
                            std::int64_t side)
      : exponent(-spectrum.exponents[row]) {
    const Real epsilon = static_cast<Real>(spectrum.epsilons[row]);
    if (spectrum.rule == Spectrum::Rule::shift_to_epsilon && least < epsilon) {
      subtracted = least;
      added = epsilon;
    } else if (spectrum.rule == Spectrum::Rule::shift_and_add) {
      subtracted = smaller_of(least, Real(0));
      added = usual = epsilon;
    } else if (spectrum.rule == Spectrum::Rule::cut) {
      cuts = true;
      const Real relative = spectrum.cut_relative < 0 ? static_cast<Real>(side) * epsilon_of<Real>()
                                                      : static_cast<Real>(spectrum.cut_relative);
      cutoff = larger_of(relative * larger_of(largest, Real(0)),
                         static_cast<Real>(spectrum.cut_absolute));
    }
    has_floor = spectrum.relative_floor != 0;
    floor = static_cast<Real>(spectrum.relative_floor) * shifted(largest);
  }

  SHAMPOO_BOTH Real shifted(Real x) const { return (x - subtracted) + added; }

  /// x <- eigenvalue of the root; returns whether it was clamped.
  SHAMPOO_BOTH bool apply(Real& value) const {
    const Real before = value + usual;
    Real x = shifted(value);
    if (has_floor) x = larger_of(x, floor);
    if (cuts && value <= cutoff) {
      value = 0;
      return false;
    }
    value = static_cast<Real>(pow(static_cast<double>(x), exponent));
    return x - before > 4 * epsilon_of<Real>() * (before < 0 ? -before : before);
  }
};

}  // namespace shampoo::kernels
