// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/inverse_root.h"

#include <algorithm>
#include <limits>

#include "kernels/solvers/coupled_iteration.h"
#include "kernels/solvers/eigen_root.h"
#include "kernels/solvers/minimax_root.h"

namespace shampoo::kernels {

namespace {

/// Eigenvalues of a float32 decomposition carry an error of about machine epsilon times the largest
/// one; below this floor they are noise, whose negative powers would dominate the direction.
constexpr double automatic_floor = 1e-7;

bool is_coupled(const Solver& solver) {
  return std::holds_alternative<CoupledNewton>(solver) ||
         std::holds_alternative<CoupledHigherOrder>(solver);
}

int matrices_for(const Solver& solver) {
  if (std::holds_alternative<Minimax>(solver)) return minimax_matrices;
  return is_coupled(solver) ? coupled_matrices : eigen_root_matrices;
}

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
    : backend_(backend),
      arithmetic_(arithmetic),
      solver_(resolved(solver, backend, arithmetic, {})),
      trace_exponent_(trace_exponent),
      workspace_(backend, arithmetic, matrices_for(solver_)) {
  add_attempts();
}

InverseRoot::~InverseRoot() = default;

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

bool InverseRoot::waits() const { return !std::holds_alternative<Minimax>(solver_); }

SolverCalls InverseRoot::calls() const {
  std::int64_t largest = 0;
  for (const RootTable::Row& row : table_.rows()) largest = std::max(largest, row.side);
  return {.largest_side = largest, .decompositions = waits(), .symmetric_products = !waits()};
}

void InverseRoot::reserve(StagedArrays& staged, std::span<const RootJob> all) {
  table_.reserve(staged, all);
  workspace_.reserve(table_);
  pending_.resize(all.size());
  outcomes_.resize(all.size());
  flags_ = HostBuffer(backend_, all.size() * sizeof(std::int32_t));
  clamped_ = HostBuffer(backend_, all.size() * sizeof(double));
  if (!waits())
    for (const RootJob& job : all) plan_for(job.exponent);
}

void InverseRoot::place(std::span<const RootJob> jobs) { table_.place(jobs); }

void InverseRoot::enqueue(bool fixed, const std::int32_t* proceed) {
  if (table_.size() == 0) return;
  std::ranges::fill(outcomes_, Outcome::computed);
  waits() ? solve_by_attempts() : enqueue_products(fixed, proceed);
  backend_.download(flags_.data(), workspace_.failed.data(), table_.size() * sizeof(std::int32_t));
  backend_.download(clamped_.data(), workspace_.clamped.data(), table_.size() * sizeof(double));
  if (waits()) backend_.synchronize();
}

void InverseRoot::enqueue_products(bool fixed, const std::int32_t* proceed) {
  SolverWorkspace::Selection rows{.type = arithmetic_, .one_exponent = true};
  if (!fixed) rows.wanted = table_.active().host();
  for (std::size_t next = 0; workspace_.take(rows, next);)
    enqueue_minimax(workspace_, plan_for(workspace_.exponent()), trace_exponent_, proceed);
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

const MinimaxPlan& InverseRoot::plan_for(double exponent) {
  for (const MinimaxPlan& plan : plans_)
    if (plan.exponent == exponent) return plan;
  return plans_.emplace_back(plan_minimax(exponent, std::get<Minimax>(solver_), arithmetic_));
}

void InverseRoot::collect(std::span<RootJob> jobs) const {
  const auto* const flags = static_cast<const std::int32_t*>(flags_.data());
  const auto* const clamped = static_cast<const double*>(clamped_.data());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const std::size_t row = table_.row(j);
    RootJob& job = jobs[j];
    job.outcome = flags[row] == 0 ? outcomes_[row] : Outcome::failed;
    // A coupled iteration sees no eigenvalues.
    const bool counts = job.outcome != Outcome::failed &&
                        (job.outcome != Outcome::computed || !is_coupled(solver_));
    job.clamped = counts ? static_cast<std::int64_t>(clamped[row]) : 0;
  }
}

}  // namespace shampoo::kernels
