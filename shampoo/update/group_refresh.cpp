// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "shampoo/update/coefficients.h"
#include "shampoo/update/group_step.h"

namespace shampoo {

namespace {

const RootInverse& root_inverse(const Recipe& recipe) {
  return std::get<RootInverse>(recipe.preconditioner);
}

struct SolverName {
  std::string_view operator()(const Automatic&) const { return "Automatic"; }
  std::string_view operator()(const Eigen&) const { return "Eigen"; }
  std::string_view operator()(const CoupledNewton&) const { return "CoupledNewton"; }
  std::string_view operator()(const CoupledHigherOrder&) const { return "CoupledHigherOrder"; }
  std::string_view operator()(const Minimax&) const { return "Minimax"; }
};

/// The same on every rank, whatever blocks it owns.
Solver solver_of(const RootInverse& preconditioner, const Backend& backend, Type arithmetic) {
  std::vector<double> exponents;
  for (const Exponent& e : preconditioner.exponents)
    if (e.value != 0) exponents.push_back(e.value);
  return kernels::resolved(preconditioner.solver, backend, arithmetic, exponents);
}

}  // namespace

void GroupStep::build_solver(kernels::StagedArrays& columns) {
  const RootInverse& preconditioner = root_inverse(recipe_);
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    for (int k = 0; k < order(b); ++k) {
      if (!has_factor(recipe_, order(b), k)) continue;
      jobs_.push_back({.pair = state_->pair(static_cast<int>(b), k),
                       .side = extents_[b][k],
                       .exponent = exponent_of(preconditioner, order(b), k)});
    }
  job_blocks_.resize(jobs_.size());
  solver_ = std::make_unique<kernels::InverseRoot>(backend_, arithmetic_,
                                                   solver_of(preconditioner, backend_, arithmetic_),
                                                   preconditioner.trace_scaling.value_or(0));
  solver_->reserve(columns, jobs_);
  backend_.reserve(stacks_, arithmetic_, solver_->calls());
}

void GroupStep::add_jobs(std::size_t b, const RegisteredParameter& parameter, std::int64_t step) {
  const Rates& rates = parameter.group->rates;
  const double scale = 1 / factor_correction(recipe_, rates, step);
  for (int k = 0; k < order(b); ++k) {
    if (!has_factor(recipe_, order(b), k)) continue;
    job_blocks_[job_count_] = b;
    jobs_[job_count_++] = {.pair = state_->pair(static_cast<int>(b), k),
                           .side = extents_[b][k],
                           .exponent = exponent_of(root_inverse(recipe_), order(b), k),
                           .epsilon = rates.epsilon,
                           .scale = scale};
  }
}

std::string_view GroupStep::host_steps() const {
  if (!refreshes() || !solver_->waits()) return {};
  return std::visit(SolverName(), root_inverse(recipe_).solver);
}

void GroupStep::refresh(Refreshing refreshing, const std::int32_t* proceed,
                        Statistics& statistics) {
  const bool fixed = refreshing == Refreshing::fixed;
  if (refreshing == Refreshing::none || (fixed ? solver_->waits() : !refreshes())) return;
  solver_->enqueue(fixed, proceed);
  if (!solver_->waits()) return;
  solver_->collect(jobs());
  count(statistics);
}

void GroupStep::collect(Statistics& statistics) {
  if (!refreshes_queued()) return;
  solver_->collect(jobs());
  count(statistics);
}

void GroupStep::count(Statistics& statistics) {
  counted_ = true;
  const std::span<const kernels::RootJob> jobs = this->jobs();
  for (std::size_t j = 0; j < jobs.size();) {
    const std::size_t b = job_blocks_[j];
    bool complete = true;
    for (; j < jobs.size() && job_blocks_[j] == b; ++j) {
      using enum kernels::Outcome;
      const kernels::Outcome outcome = jobs[j].outcome;
      complete = complete && outcome != failed;
      statistics.refreshes += outcome != failed;
      statistics.by_eigenvalues += outcome == by_eigenvalues;
      statistics.jittered += outcome == jittered;
      statistics.in_float64 += outcome == in_float64;
      statistics.by_jacobi += outcome == by_jacobi;
      statistics.kept_roots += outcome == failed;
      statistics.raised_eigenvalues += jobs[j].clamped;
    }
    failures_[b] = complete ? 0 : failures_[b] + 1;
  }
}

void GroupStep::recompute_roots(std::span<const std::size_t> blocks,
                                std::span<const RegisteredParameter> parameters,
                                Statistics& statistics) {
  job_count_ = 0;
  for (const std::size_t b : blocks) {
    const RegisteredParameter& parameter = parameters[blocks_[b].parameter];
    add_jobs(b, parameter, parameter.steps);
  }
  if (!refreshes()) return;
  solver_->place(jobs());
  columns_.upload();
  solver_->enqueue();
  backend_.synchronize();
  solver_->collect(jobs());
  count(statistics);
  job_count_ = 0;
}

void GroupStep::restore(std::size_t block, int failures, std::int64_t phase) {
  failures_[block] = failures;
  blocks_[block].phase = phase;
}

std::string GroupStep::exhausted_block(std::span<const RegisteredParameter> parameters) const {
  if (!counted_) return {};
  const int tolerated = root_inverse(recipe_).tolerated_failures;
  for (std::size_t j = 0; j < job_count_; ++j) {
    const std::size_t b = job_blocks_[j];
    if (failures_[b] <= tolerated) continue;
    return parameters[blocks_[b].parameter].parameter().name + ", block " +
           std::to_string(blocks_[b].index) + ": no root could be computed in " +
           std::to_string(failures_[b]) + " refreshes in a row; its old roots are still in use";
  }
  return {};
}

}  // namespace shampoo
