// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "kernels/solvers/factor_solver.h"

/// Which method comes next where one failed.
namespace shampoo::kernels {

double machine_epsilon(Type type) {
  return type == Type::float64 ? std::numeric_limits<double>::epsilon()
                               : std::numeric_limits<float>::epsilon();
}

void FactorSolver::add_decompositions(bool iterates) {
  using enum Outcome;
  attempts_.push_back({.outcome = iterates ? by_eigenvalues : computed, .type = arithmetic_});
  attempts_.push_back({.outcome = jittered, .type = arithmetic_, .jittered = true});
  if (arithmetic_ == Type::float32)
    attempts_.push_back({.outcome = in_float64, .type = Type::float64});
  attempts_.push_back(
      {.outcome = by_jacobi, .type = Type::float64, .eigensolver = Eigensolver::jacobi});
}

void FactorSolver::solve_by_attempts() {
  std::ranges::copy(table_.active().host(), pending_.begin());
  for (const Attempt& how : attempts_)
    for (std::size_t next = 0;
         workspace_.take({.wanted = pending_,
         .type = how.type,
         .one_exponent = how.method == Method::iterate || how.method == Method::reduce},
                         next);) {
      const std::span<const std::int32_t> flags = solve_chunk(how);
      for (const std::size_t row : workspace_.rows()) {
        pending_[row] = flags[row] != 0;
        outcomes_[row] = how.outcome;
      }
    }
}

void FactorSolver::reserve(StagedArrays& staged, std::span<const RootJob> all) {
  table_.reserve(staged, all);
  workspace_.reserve(table_);
  pending_.resize(all.size());
  outcomes_.resize(all.size());
  flags_ = HostBuffer(backend_, all.size() * sizeof(std::int32_t));
  clamped_ = HostBuffer(backend_, all.size() * sizeof(double));
}

SolverCalls FactorSolver::calls() const {
  SolverCalls calls{.decompositions = waits()};
  for (const RootTable::Row& row : table_.rows()) ++calls.matrices[row.side];
  if (!calls.matrices.empty()) calls.largest_side = calls.matrices.rbegin()->first;
  return calls;
}

void FactorSolver::enqueue(Rows rows, const std::int32_t* proceed) {
  if (table_.size() == 0) return;
  std::ranges::fill(outcomes_, Outcome::computed);
  waits() ? solve_by_attempts() : enqueue_products(rows, proceed);
  backend_.download(flags_.data(), workspace_.failed.data(), table_.size() * sizeof(std::int32_t));
  backend_.download(clamped_.data(), workspace_.clamped.data(), table_.size() * sizeof(double));
  if (waits()) backend_.synchronize();
}

void FactorSolver::collect(std::span<RootJob> jobs) const {
  const auto* const flags = static_cast<const std::int32_t*>(flags_.data());
  const auto* const clamped = static_cast<const double*>(clamped_.data());
  // An iteration sees no eigenvalues.
  const bool iterates = !attempts_.empty() && attempts_.front().method == Method::iterate;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const std::size_t row = table_.row(j);
    RootJob& job = jobs[j];
    job.outcome = flags[row] == 0 ? outcomes_[row] : Outcome::failed;
    const bool counts =
        job.outcome != Outcome::failed && (job.outcome != Outcome::computed || !iterates);
    job.clamped = counts ? static_cast<std::int64_t>(clamped[row]) : 0;
  }
}

}  // namespace shampoo::kernels
