// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/inverse_root.h"

#include <algorithm>

#include "kernels/solvers/coupled_iteration.h"
#include "kernels/solvers/eigen_root.h"
#include "kernels/solvers/minimax_root.h"
#include "kernels/solvers/rational.h"

namespace shampoo::kernels {

namespace {

int matrices_for(const Solver& solver) {
  if (std::holds_alternative<Minimax>(solver)) return minimax_matrices;
  return is_coupled(solver) ? coupled_matrices : eigen_root_matrices;
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

Solver resolved(const Solver& solver, const Backend& backend, Type arithmetic,
                std::span<const double> exponents) {
  if (!std::holds_alternative<Automatic>(solver)) return solver;
  const bool fits = std::all_of(exponents.begin(), exponents.end(),
                                [](double e) { return minimax_root(e).has_value(); });
  if (fits && arithmetic == Type::float32 && backend.prefers_products()) return Minimax{};
  return Eigen{.relative_floor = automatic_floor};
}

InverseRoot::InverseRoot(Backend& backend, Type arithmetic, const Solver& solver,
                         double trace_exponent)
    : FactorSolver(backend, arithmetic, matrices_for(resolved(solver, backend, arithmetic, {}))),
      solver_(resolved(solver, backend, arithmetic, {})),
      trace_exponent_(trace_exponent) {
  if (is_coupled(solver_))
    attempts_.push_back(
        {.outcome = Outcome::computed, .type = arithmetic_, .method = Method::iterate});
  add_decompositions(is_coupled(solver_));
}

InverseRoot::~InverseRoot() = default;

bool InverseRoot::waits() const { return !std::holds_alternative<Minimax>(solver_); }

void InverseRoot::reserve(StagedArrays& staged, std::span<const RootJob> all) {
  FactorSolver::reserve(staged, all);
  if (!waits())
    for (const RootJob& job : all) plan_for(job.exponent);
}

void InverseRoot::enqueue_products(bool fixed, const std::int32_t* proceed) {
  SolverWorkspace::Selection rows{.type = arithmetic_, .one_exponent = true};
  if (!fixed) rows.wanted = table_.active().host();
  for (std::size_t next = 0; workspace_.take(rows, next);)
    enqueue_minimax(workspace_, plan_for(workspace_.exponent()), trace_exponent_, proceed);
}

const MinimaxPlan& InverseRoot::plan_for(double exponent) {
  for (const MinimaxPlan& plan : plans_)
    if (plan.exponent == exponent) return plan;
  return plans_.emplace_back(plan_minimax(exponent, std::get<Minimax>(solver_), arithmetic_));
}

std::span<const std::int32_t> InverseRoot::solve_chunk(const Attempt& how) {
  if (how.method == Method::decompose) {
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
