// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rules/arithmetic.h"
#include "kernels/rules/direction_rule.h"

namespace shampoo::kernels {

/// A SecondMoment in the arithmetic type.
template <typename Real>
struct SecondMomentRule {
  SHAMPOO_RULE explicit SecondMomentRule(const SecondMoment& c)
      : keep(static_cast<Real>(c.keep)),
        add(static_cast<Real>(c.add)),
        scale(static_cast<Real>(c.scale)),
        epsilon(static_cast<Real>(c.epsilon)) {}

  Real keep, add, scale, epsilon;
};

/// F
template <typename Real>
struct IdentityDirection {
  static constexpr bool is_identity = true, has_second_moment = false, has_companion = false;

  SHAMPOO_RULE explicit IdentityDirection(const SecondMomentRule<Real>&) {}
  SHAMPOO_RULE Real accumulated(Real v, Real) const { return v; }
  SHAMPOO_RULE Real operator()(Real f, Real) const { return f; }
};

template <typename Real>
struct DiagonalDirection {
  static constexpr bool is_identity = false, has_second_moment = true, has_companion = false;

  SHAMPOO_RULE explicit DiagonalDirection(const SecondMomentRule<Real>& coefficients)
      : c(coefficients) {}
  /// V <- keep V + add G^2
  SHAMPOO_RULE Real accumulated(Real v, Real g) const { return c.keep * v + c.add * (g * g); }
  /// F / (sqrt(V scale) + epsilon)
  SHAMPOO_RULE Real operator()(Real f, Real v) const { return f / (root(v * c.scale) + c.epsilon); }

  SecondMomentRule<Real> c;
};

/// AMSGrad [Reddi 2018]: the companion X of V is the largest V so far.
template <typename Real>
struct MaximalDirection : DiagonalDirection<Real> {
  static constexpr bool has_companion = true;

  SHAMPOO_RULE explicit MaximalDirection(const SecondMomentRule<Real>& coefficients)
      : DiagonalDirection<Real>(coefficients) {}
  /// X <- max(X, V), with the new V
  SHAMPOO_RULE Real accompanied(Real x, Real v, Real) const { return x < v ? v : x; }
  /// X, in place of V in the direction
  SHAMPOO_RULE Real radicand(Real, Real x) const { return x; }
};

/// Centered RMSprop [Graves 2013]: the companion A of V is the moving average of G,
/// so that V - A^2 estimates the variance of G.
template <typename Real>
struct CenteredDirection : DiagonalDirection<Real> {
  static constexpr bool has_companion = true;

  SHAMPOO_RULE explicit CenteredDirection(const SecondMomentRule<Real>& coefficients)
      : DiagonalDirection<Real>(coefficients), mean(static_cast<double>(coefficients.add)) {}
  /// A <- lerp(A, G, add)
  SHAMPOO_RULE Real accompanied(Real a, Real, Real g) const { return mean(a, g); }
  /// V - A^2, or 0 where rounding makes it negative
  SHAMPOO_RULE Real radicand(Real v, Real a) const {
    const Real variance = v - a * a;
    return variance < 0 ? Real(0) : variance;
  }

  Lerp<Real> mean;
};

/// -1, 0 or 1; NaN for a NaN.
template <typename Real>
struct SignDirection {
  static constexpr bool is_identity = false, has_second_moment = false, has_companion = false;

  SHAMPOO_RULE explicit SignDirection(const SecondMomentRule<Real>&) {}
  SHAMPOO_RULE Real accumulated(Real v, Real) const { return v; }
  SHAMPOO_RULE Real operator()(Real f, Real) const {
    return f > 0 ? Real(1) : (f < 0 ? Real(-1) : f);
  }
};

/// body(direction) with the direction of a rule: one of the structs above.
template <typename Real, typename Body>
SHAMPOO_RULE void with_direction(DirectionRule rule, const SecondMomentRule<Real>& c, Body&& body) {
  switch (rule) {
    case DirectionRule::identity:
      return body(IdentityDirection<Real>(c));
    case DirectionRule::diagonal:
      return body(DiagonalDirection<Real>(c));
    case DirectionRule::maximal:
      return body(MaximalDirection<Real>(c));
    case DirectionRule::centered:
      return body(CenteredDirection<Real>(c));
    case DirectionRule::sign:
      return body(SignDirection<Real>(c));
  }
}

/// The outputs of a pass over the gradients for a block.
struct DirectionUse {
  SHAMPOO_RULE DirectionUse(Mode mode, bool has_grafting, const double* grafting_norms,
                            const double* direction_norms)
      : preconditions(mode == Mode::preconditioned),
        grafts(mode == Mode::unpreconditioned && has_grafting),
        grafting_norm(preconditions && has_grafting && grafting_norms != nullptr),
        direction_norm(preconditions && direction_norms != nullptr) {}

  bool preconditions;  ///< P is the preconditioner's direction
  bool grafts;         ///< P is the grafting's direction
  bool grafting_norm, direction_norm;
};

}  // namespace shampoo::kernels
