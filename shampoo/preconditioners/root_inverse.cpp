// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/root_inverse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "kernels/range.h"
#include "kernels/solvers/inverse_root.h"
#include "shampoo/validation/validate_solver.h"

namespace shampoo {

namespace {

std::string factor_slot(int dimension) { return "factor/" + std::to_string(dimension); }
std::string root_slot(int dimension) { return "root/" + std::to_string(dimension); }

/// Multiplications of one symmetric eigendecomposition with eigenvectors and of the product that
/// forms the root, over n^3 (LAPACK syevd: reduction 4/3, divide and conquer up to 8/3,
/// back-transformation 2, product 1), times 3.5, because half of them run at the speed of memory.
constexpr std::int64_t root_products = 25;

/// The same on every rank, whatever blocks it owns.
Solver solver_of(const RootInverse& kind, const kernels::Backend& backend, Type arithmetic) {
  std::vector<double> exponents;
  for (const Exponent& e : kind.exponents)
    if (e.value != 0) exponents.push_back(e.value);
  return kernels::resolved(kind.solver, backend, arithmetic, exponents);
}

bool has_pseudo_inverse(const RootInverse& kind) {
  const auto* eigen = std::get_if<Eigen>(&kind.solver);
  return eigen && eigen->pseudo_inverse;
}

/// Calls visit(dimension, exponent) for the dimensions that have a factor.
template <typename Visit>
void for_each_factor(const RootInverse& kind, const Recipe& recipe, int order, const Visit& visit) {
  if (!recipe.refresh.first) return;
  for (int k = 0; k < order; ++k)
    if (const double exponent = exponent_of(kind, order, k); exponent != 0) visit(k, exponent);
}

class RootInversePreconditioner final : public GroupPreconditioner {
 public:
  RootInversePreconditioner(const RootInverse& kind, const PreconditionerContext& context);

  void set_coefficients(const Rates& rates, std::int64_t step,
                        kernels::Coefficients& coefficients) const override;
  void prepare(std::span<const BlockStep> blocks) override;
  void accumulate(StepContext& step) override;
  void refresh(StepContext& step) override;
  void apply(StepContext& step) override;

  bool refreshes() const override { return job_count_ > 0; }
  std::string_view waiting_solver() const override;
  void collect(Statistics& statistics) override;
  void recompute(std::span<const BlockStep> blocks, Statistics& statistics) override;
  int failures(std::size_t block) const override { return failures_[block]; }
  void set_failures(std::size_t block, int failures) override { failures_[block] = failures; }
  std::int64_t exhausted_block() const override;
  std::int64_t workspace_bytes() const override { return solver_.workspace_bytes(); }

 private:
  /// 1 - beta2^t, by which L is divided before its root is taken; 1 without bias correction.
  double bias_correction(const Rates& rates, std::int64_t step) const;
  void count(Statistics& statistics);
  std::span<kernels::RootJob> jobs() { return {jobs_.data(), job_count_}; }

  const RootInverse& kind_;
  const Recipe& recipe_;
  kernels::Backend& backend_;
  kernels::StagedArrays& columns_;
  std::vector<kernels::Stack> stacks_;  ///< with the arrays of factors and roots
  kernels::InverseRoot solver_;
  std::vector<kernels::RootJob> all_jobs_;  ///< of every factor, block after block
  std::vector<std::size_t> first_job_;      ///< per block, and the end
  std::vector<kernels::RootJob> jobs_;      ///< of the due blocks
  std::vector<std::size_t> job_blocks_;
  std::size_t job_count_ = 0;
  bool counted_ = false;       ///< the outcomes of the jobs
  std::vector<int> failures_;  ///< per block
};

RootInversePreconditioner::RootInversePreconditioner(const RootInverse& kind,
                                                     const PreconditionerContext& context)
    : kind_(kind),
      recipe_(context.recipe),
      backend_(context.backend),
      columns_(context.columns),
      stacks_(context.stacks.begin(), context.stacks.end()),
      solver_(backend_, arithmetic_type(recipe_),
              solver_of(kind, backend_, arithmetic_type(recipe_)), kind.trace_scaling.value_or(0)),
      failures_(context.extents.size(), 0) {
  for (std::size_t s = 0; s < stacks_.size(); ++s)
    for (std::size_t k = 0; k < stacks_[s].extent.size(); ++k)
      stacks_[s].factors.push_back(
          context.state.arrays(static_cast<int>(s), factor_slot(static_cast<int>(k))));

  for (std::size_t b = 0; b < context.extents.size(); ++b) {
    first_job_.push_back(all_jobs_.size());
    const std::vector<std::int64_t>& extent = context.extents[b];
    const std::vector<Slot> slots = context.state.slots(static_cast<int>(b));
    for_each_factor(kind_, recipe_, static_cast<int>(extent.size()), [&](int k, double exponent) {
      const auto slot = std::ranges::find(slots, factor_slot(k), &Slot::name);
      all_jobs_.push_back({.pair = context.state.data(static_cast<int>(b), *slot),
                           .side = extent[k],
                           .exponent = exponent});
    });
  }
  first_job_.push_back(all_jobs_.size());
  jobs_ = all_jobs_;
  job_blocks_.resize(jobs_.size());
  solver_.reserve(context.columns, all_jobs_);
  backend_.reserve(stacks_, arithmetic_type(recipe_), solver_.calls());
}

double RootInversePreconditioner::bias_correction(const Rates& rates, std::int64_t step) const {
  if (!recipe_.bias_correction || kind_.drop_weighting || rates.beta2 == 1) return 1;
  return 1 - std::pow(rates.beta2, static_cast<double>(step));
}

void RootInversePreconditioner::set_coefficients(const Rates& rates, std::int64_t /*step*/,
                                                 kernels::Coefficients& coefficients) const {
  coefficients.factor_keep = rates.beta2;
  coefficients.factor_add = rates.beta2 == 1 || kind_.drop_weighting ? 1 : 1 - rates.beta2;
}

void RootInversePreconditioner::prepare(std::span<const BlockStep> blocks) {
  job_count_ = 0;
  counted_ = false;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (!blocks[b].due) continue;
    const double scale = 1 / bias_correction(*blocks[b].rates, blocks[b].step);
    for (std::size_t j = first_job_[b]; j < first_job_[b + 1]; ++j) {
      job_blocks_[job_count_] = b;
      jobs_[job_count_] = all_jobs_[j];
      jobs_[job_count_].epsilon = blocks[b].rates->epsilon;
      jobs_[job_count_++].scale = scale;
    }
  }
  solver_.place(jobs());
}

void RootInversePreconditioner::accumulate(StepContext& step) {
  if (!recipe_.refresh.first) return;
  const kernels::Range range(backend_, "factors");
  // L_k <- beta2 L_k + (1 - beta2) G x_{j != k} G                       [Gupta 2018, Algorithm 2]
  backend_.accumulate_factors(step.pass, stacks_, step.present, step.gradients.masters);
}

void RootInversePreconditioner::refresh(StepContext& step) {
  const kernels::Range range(backend_, "roots");
  // R_k <- (L_k / (1 - beta2^t) + epsilon I)^(-e_k)                              [Anil 2020, 3.1]
  const bool fixed = step.refreshing == Refreshing::fixed;
  if (step.refreshing == Refreshing::none || (fixed ? solver_.waits() : !refreshes())) return;
  solver_.enqueue(fixed, step.pass.proceed);
  if (!solver_.waits()) return;
  solver_.collect(jobs());
  count(step.statistics);
}

void RootInversePreconditioner::apply(StepContext& step) {
  if (!recipe_.refresh.first) return;
  const kernels::Range range(backend_, "precondition");
  // P <- F x_k R_k, and |P|^2 of every block
  backend_.precondition(step.pass, stacks_, step.preconditioned, step.gradients.direction,
                        step.direction_norms);
}

std::string_view RootInversePreconditioner::waiting_solver() const {
  if (!refreshes() || !solver_.waits()) return {};
  return std::visit([](const auto& solver) { return std::string_view(solver.name); }, kind_.solver);
}

void RootInversePreconditioner::collect(Statistics& statistics) {
  if (!refreshes() || solver_.waits()) return;
  solver_.collect(jobs());
  count(statistics);
}

void RootInversePreconditioner::count(Statistics& statistics) {
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

void RootInversePreconditioner::recompute(std::span<const BlockStep> blocks,
                                          Statistics& statistics) {
  prepare(blocks);
  if (!refreshes()) return;
  columns_.upload();
  solver_.enqueue();
  backend_.synchronize();
  solver_.collect(jobs());
  count(statistics);
  job_count_ = 0;
}

std::int64_t RootInversePreconditioner::exhausted_block() const {
  if (!counted_) return -1;
  for (std::size_t j = 0; j < job_count_; ++j)
    if (failures_[job_blocks_[j]] > kind_.tolerated_failures)
      return static_cast<std::int64_t>(job_blocks_[j]);
  return -1;
}

}  // namespace

void check(const RootInverse& kind, const Recipe& recipe, const Checks& checks) {
  check_solver(kind.solver, recipe.arithmetic, checks);
  for (const Exponent& e : kind.exponents) {
    checks.require(e.order >= 0, "recipe.exponents.order", ">= 0", e.order);
    if (e.dimension)
      checks.require(*e.dimension >= 0 && *e.dimension < std::max(e.order, 1),
                     "recipe.exponents.dimension", "in [0, max(order, 1))", *e.dimension);
    check_exponent(e.value, kind.solver, checks);
  }
  if (kind.trace_scaling)
    checks.require(*kind.trace_scaling > 0 && *kind.trace_scaling <= 1, "recipe.trace_scaling",
                   "in (0, 1]", *kind.trace_scaling);
  checks.require(kind.tolerated_failures >= 0, "recipe.tolerated_failures", ">= 0",
                 kind.tolerated_failures);
}

double exponent_of(const RootInverse& kind, int order, int dimension) {
  // 1 / (2 order): a product over all dimensions scales as the inverse square root.
  double exponent = 1.0 / (2 * std::max(order, 1));
  for (const Exponent& e : kind.exponents)
    if (e.order == order && (!e.dimension || *e.dimension == dimension)) exponent = e.value;
  return exponent;
}

bool has_refresh(const RootInverse&, const Recipe&) { return true; }

std::span<const RateUse> rates(const RootInverse& kind, const Recipe& recipe, Role) {
  using enum RateRange;
  static constexpr std::array<RateUse, 2> usual{{{"beta2", unit_closed}, {"epsilon", positive}}};
  static constexpr std::array<RateUse, 2> cutting{{{"beta2", unit_closed}, {"epsilon", zero_only}}};
  if (!recipe.refresh.first) return {};
  return has_pseudo_inverse(kind) ? std::span<const RateUse>(cutting) : usual;
}

std::vector<Slot> slots(const RootInverse& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role) {
  const Type type = arithmetic_type(recipe);
  std::vector<Slot> slots;
  for_each_factor(kind, recipe, static_cast<int>(extent.size()), [&](int k, double) {
    slots.push_back(
        {.name = factor_slot(k), .layout = StateLayout::symmetric, .dimension = k, .type = type});
    slots.push_back({.name = root_slot(k),
                     .layout = StateLayout::symmetric,
                     .dimension = k,
                     .type = type,
                     .initial = Slot::Initial::identity,
                     .derived = true,
                     .shares = factor_slot(k)});
  });
  return slots;
}

std::int64_t work(const RootInverse& kind, const Recipe& recipe,
                  std::span<const std::int64_t> extent) {
  std::int64_t elements = 1, cost = 0;
  for (const std::int64_t side : extent) elements *= side;
  for_each_factor(kind, recipe, static_cast<int>(extent.size()), [&](int k, double) {
    const std::int64_t n = extent[k];
    // a root every so many steps; G x G, half of it; G x root
    cost +=
        root_products * n * n * n / recipe.refresh.every + elements * (n + 1) + 2 * elements * n;
  });
  return cost;
}

std::unique_ptr<GroupPreconditioner> make(const RootInverse& kind,
                                          const PreconditionerContext& context, Role) {
  return std::make_unique<RootInversePreconditioner>(kind, context);
}

}  // namespace shampoo
