// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "kernels/solvers/coupled_iteration.h"
#include "kernels/solvers/eigen_root.h"
#include "kernels/solvers/inverse_root.h"
#include "kernels/solvers/rational.h"

/// Which solver comes next where one failed.
namespace shampoo::kernels {

namespace {

double machine_epsilon(Type type) {
  return type == Type::float64 ? std::numeric_limits<double>::epsilon()
                               : std::numeric_limits<float>::epsilon();
}

/// The eigendecomposition that damps like the solver.
EigenRoot eigen_root_of(const Solver& solver) {
  if (const auto* eigen = std::get_if<Eigen>(&solver)) return {.options = *eigen};
  if (const auto* higher = std::get_if<CoupledHigherOrder>(&solver))
    return {.options = {.relative_floor = std::max(higher->relative_epsilon, automatic_floor)},
            .epsilon = higher->absolute_epsilon};
  return {.options = {.relative_floor = automatic_floor}};
}

}  // namespace

void InverseRoot::add_attempts() {
  using enum Outcome;
  if (is_coupled(solver_))
    attempts_.push_back({.outcome = computed, .type = arithmetic_, .iterates = true});
  attempts_.push_back(
      {.outcome = is_coupled(solver_) ? by_eigenvalues : computed, .type = arithmetic_});
  attempts_.push_back({.outcome = jittered, .type = arithmetic_, .jittered = true});
  if (arithmetic_ == Type::float32)
    attempts_.push_back({.outcome = in_float64, .type = Type::float64});
  attempts_.push_back(
      {.outcome = by_jacobi, .type = Type::float64, .eigensolver = Eigensolver::jacobi});
}

void InverseRoot::solve_by_attempts() {
  std::ranges::copy(table_.active().host(), pending_.begin());
  for (const Attempt& how : attempts_)
    for (std::size_t next = 0; workspace_.take(
             {.wanted = pending_, .type = how.type, .one_exponent = how.iterates}, next);) {
      const std::span<const std::int32_t> flags = solve_chunk(how);
      for (const std::size_t row : workspace_.rows()) {
        pending_[row] = flags[row] != 0;
        outcomes_[row] = how.outcome;
      }
    }
}

std::span<const std::int32_t> InverseRoot::solve_chunk(const Attempt& how) {
  if (!how.iterates) {
    EigenRoot eigen = eigen_root_of(solver_);
    eigen.trace_exponent = trace_exponent_;
    eigen.eigensolver = how.eigensolver;
    if (how.jittered) eigen.jitter = machine_epsilon(how.type);
    return eigen_root(workspace_, eigen);
  }
  const Rational root = rational(1 / workspace_.exponent()).value();
  if (const auto* newton = std::get_if<CoupledNewton>(&solver_))
    return coupled_newton(workspace_, root, *newton, trace_exponent_);
  return coupled_higher_order(workspace_, root, std::get<CoupledHigherOrder>(solver_),
                              trace_exponent_);
}

}  // namespace shampoo::kernels
