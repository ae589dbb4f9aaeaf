// SPDX-License-Identifier: Apache-2.0
#include "shampoo/validation/validate_solver.h"

#include "kernels/solvers/rational.h"

namespace shampoo {

namespace {

void check_pseudo_inverse(const std::optional<PseudoInverse>& pseudo_inverse, double relative_floor,
                          const Checks& checks) {
  checks.unit_open("solver.relative_floor", relative_floor);
  if (!pseudo_inverse) return;
  if (pseudo_inverse->relative_tolerance)
    checks.unit_closed("solver.pseudo_inverse.relative_tolerance",
                       *pseudo_inverse->relative_tolerance);
  checks.at_least_zero("solver.pseudo_inverse.absolute_tolerance",
                       pseudo_inverse->absolute_tolerance);
  checks.require(relative_floor == 0, "solver.relative_floor", "0 with a pseudo-inverse",
                 relative_floor);
}

struct SolverChecks {
  const Checks& checks;
  Arithmetic arithmetic;

  void operator()(const Automatic&) const {}
  void operator()(const Eigen& s) const {
    check_pseudo_inverse(s.pseudo_inverse, s.relative_floor, checks);
  }
  void operator()(const CoupledNewton& s) const {
    checks.require(s.max_iterations >= 0, "solver.max_iterations", ">= 0", s.max_iterations);
    checks.at_least_zero("solver.tolerance", s.tolerance);
  }
  void operator()(const CoupledHigherOrder& s) const {
    checks.require(s.max_iterations >= 0, "solver.max_iterations", ">= 0", s.max_iterations);
    checks.at_least_zero("solver.tolerance", s.tolerance);
    checks.require(s.order >= 2, "solver.order", ">= 2", s.order);
    checks.at_least_zero("solver.relative_epsilon", s.relative_epsilon);
    checks.at_least_zero("solver.absolute_epsilon", s.absolute_epsilon);
    checks.require(s.relative_epsilon > 0 || s.absolute_epsilon > 0, "solver.absolute_epsilon",
                   "> 0 where relative_epsilon is 0", s.absolute_epsilon);
  }
  void operator()(const Minimax& s) const {
    if (s.kappa_max) check_kappa(*s.kappa_max);
  }
  void operator()(const Tridiagonal& s) const { check_kappa(s.kappa_max); }

  void check_kappa(double kappa_max) const {
    const bool narrow = arithmetic == Arithmetic::float32;
    checks.require(kappa_max >= 10 && kappa_max <= (narrow ? 1e7 : 1e12), "solver.kappa_max",
                   narrow ? "in [10, 1e7] in float32" : "in [10, 1e12] in float64", kappa_max);
  }
};

}  // namespace

void check_solver(const Solver& solver, Arithmetic arithmetic, const Checks& checks) {
  std::visit(SolverChecks{checks, arithmetic}, solver);
}

void check_basis_method(const BasisMethod& method, bool directions, const Checks& checks) {
  if (const auto* const qr = std::get_if<Qr>(&method)) {
    checks.require(qr->max_iterations >= 0, "solver.max_iterations", ">= 0", qr->max_iterations);
    return checks.unit_closed("solver.tolerance", qr->tolerance);
  }
  const Eigh& eigh = std::get<Eigh>(method);
  checks.unit_closed("solver.tolerance", eigh.tolerance);
  check_pseudo_inverse(eigh.pseudo_inverse, eigh.relative_floor, checks);
  if (directions) return;
  checks.require(!eigh.pseudo_inverse, "solver.pseudo_inverse", "empty where only bases are read",
                 "a pseudo-inverse");
  checks.require(eigh.relative_floor == 0, "solver.relative_floor", "0 where only bases are read",
                 eigh.relative_floor);
}

void check_exponent(double exponent, const Solver& solver, const Checks& checks) {
  checks.at_least_zero("exponents.value", exponent);
  if (exponent == 0) return;
  const auto root = kernels::rational(1 / exponent);
  const auto require = [&](bool holds, const char* range) {
    checks.require(holds, "exponents.value", range, exponent);
  };
  if (std::holds_alternative<CoupledNewton>(solver))
    require(root && root->q == 1, "1 / p with an integer p for the coupled Newton iteration");
  if (std::holds_alternative<CoupledHigherOrder>(solver))
    require(root.has_value(), "q / p with integers, q <= 64, for the coupled iteration");
  if (std::holds_alternative<Minimax>(solver))
    require(kernels::minimax_root(exponent).has_value(),
            "q / p with integers q <= 4, p <= 64, at most 1, for the minimax solver");
  if (std::holds_alternative<Tridiagonal>(solver))
    require(exponent < 1, "below 1 for the tridiagonal solver");
}

}  // namespace shampoo
