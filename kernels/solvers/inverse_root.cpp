// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/inverse_root.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/solvers/coupled_iteration.h"
#include "kernels/solvers/eigen_root.h"
#include "kernels/solvers/minimax_root.h"
#include "kernels/solvers/rational.h"
#include "kernels/solvers/tridiagonal_root.h"

namespace shampoo::kernels {

namespace {

int matrices_for(const Solver& solver) {
  if (std::holds_alternative<Minimax>(solver)) return minimax_matrices;
  static_assert(tridiagonal_root_matrices == eigen_root_matrices);
  return is_coupled(solver) ? coupled_matrices : eigen_root_matrices;
}

/// The eigendecomposition that damps like the solver.
EigenRoot eigen_root_of(const Solver& solver) {
  if (const auto* eigen = std::get_if<Eigen>(&solver)) return {.options = *eigen};
  if (const auto* higher = std::get_if<CoupledHigherOrder>(&solver)) {
    EigenRoot root{
        .options = {.relative_floor = std::max(higher->relative_epsilon, automatic_floor)}};
    // 0 leaves a factor of zeros, which is always decomposed, without a root.
    if (higher->absolute_epsilon > 0) root.epsilon = higher->absolute_epsilon;
    return root;
  }
  if (const auto* tridiagonal = std::get_if<Tridiagonal>(&solver))
    return {.options = {.relative_floor = std::max(1 / tridiagonal->kappa_max, automatic_floor)}};
  return {.options = {.relative_floor = automatic_floor}};
}

template <typename Plan>
const Plan* find_plan(const std::vector<Plan>& plans, double exponent) {
  const auto found = std::ranges::find(plans, exponent, &Plan::exponent);
  return found == plans.end() ? nullptr : &*found;
}

}  // namespace

Solver resolved(const Solver& solver, const Backend& backend, Type arithmetic,
                std::span<const double> exponents) {
  if (std::holds_alternative<Tridiagonal>(solver) && !backend.has_tridiagonal_roots())
    throw std::invalid_argument(
        "the solver tridiagonal is for the CPU; automatic takes it there, and minimax on CUDA");
  if (!std::holds_alternative<Automatic>(solver)) return solver;
  const auto all = [&](const auto& fits) { return std::ranges::all_of(exponents, fits); };
  if (backend.prefers_products() && arithmetic == Type::float32 &&
      all([](double e) { return minimax_root(e).has_value(); }))
    return Minimax{};
  if (backend.has_tridiagonal_roots() && all([](double e) { return e < 1; })) return Tridiagonal{};
  return Eigen{.relative_floor = automatic_floor};
}

InverseRoot::InverseRoot(Backend& backend, Type arithmetic, const Solver& solver,
                         double trace_exponent)
    : FactorSolver(backend, arithmetic, matrices_for(resolved(solver, backend, arithmetic, {}))),
      solver_(resolved(solver, backend, arithmetic, {})),
      trace_exponent_(trace_exponent) {
  const bool reduces = std::holds_alternative<Tridiagonal>(solver_);
  if (reduces || is_coupled(solver_))
    attempts_.push_back({.outcome = Outcome::computed,
                         .type = arithmetic_,
                         .method = reduces ? Method::reduce : Method::iterate});
  add_decompositions(!attempts_.empty());
}

InverseRoot::~InverseRoot() = default;

bool InverseRoot::waits() const { return !std::holds_alternative<Minimax>(solver_); }

void InverseRoot::reserve(StagedArrays& staged, std::span<const RootJob> all) {
  FactorSolver::reserve(staged, all);
  for (const RootJob& job : all) {
    if (const auto* minimax = std::get_if<Minimax>(&solver_))
      if (!find_plan(plans_, job.exponent))
        plans_.push_back(plan_minimax(job.exponent, *minimax, arithmetic_));
    if (const auto* tridiagonal = std::get_if<Tridiagonal>(&solver_))
      if (!find_plan(tridiagonal_plans_, job.exponent))
        tridiagonal_plans_.push_back(plan_tridiagonal(job.exponent, *tridiagonal, arithmetic_));
  }
}

void InverseRoot::enqueue_products(Rows rows, const std::int32_t* proceed) {
  SolverWorkspace::Selection from{.type = arithmetic_, .one_exponent = true};
  if (rows == Rows::placed) from.wanted = table_.active().host();
  if (rows == Rows::usual) from.wanted = table_.usual();
  for (std::size_t next = 0; workspace_.take(from, next);)
    enqueue_minimax(workspace_, *find_plan(plans_, workspace_.exponent()), trace_exponent_,
                    proceed);
}

std::span<const std::int32_t> InverseRoot::solve_chunk(const Attempt& how) {
  if (how.method == Method::decompose) {
    EigenRoot eigen = eigen_root_of(solver_);
    eigen.trace_exponent = trace_exponent_;
    eigen.eigensolver = how.eigensolver;
    if (how.jittered) eigen.jitter = machine_epsilon(how.type);
    return eigen_root(workspace_, eigen);
  }
  if (how.method == Method::reduce)
    return tridiagonal_root(workspace_, *find_plan(tridiagonal_plans_, workspace_.exponent()),
                            trace_exponent_);
  const Rational root = rational(1 / workspace_.exponent()).value();
  if (const auto* newton = std::get_if<CoupledNewton>(&solver_))
    return coupled_newton(workspace_, root, *newton, trace_exponent_);
  return coupled_higher_order(workspace_, root, std::get<CoupledHigherOrder>(solver_),
                              trace_exponent_);
}

}  // namespace shampoo::kernels
