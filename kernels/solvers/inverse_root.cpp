// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/inverse_root.h"

#include <algorithm>

#include "kernels/solvers/coupled_iteration.h"
#include "kernels/solvers/eigen_root.h"
#include "kernels/solvers/minimax_root.h"

namespace shampoo::kernels {

namespace {

int matrices_for(const Solver& solver) {
  if (std::holds_alternative<Minimax>(solver)) return minimax_matrices;
  return is_coupled(solver) ? coupled_matrices : eigen_root_matrices;
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
