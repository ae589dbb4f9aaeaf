// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/factored.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "shampoo/trace/step_clock.h"

namespace shampoo {

namespace {

/// Passes of a plain step over a matrix, in operations per element.
constexpr std::int64_t factor_passes = 100;

kernels::FactorSolver::Rows rows_of(Refreshing refreshing) {
  using enum kernels::FactorSolver::Rows;
  return refreshing == Refreshing::all ? all : refreshing == Refreshing::usual ? usual : placed;
}

}  // namespace

std::string factor_slot(int dimension) { return "factor/" + std::to_string(dimension); }
std::string root_slot(int dimension) { return "root/" + std::to_string(dimension); }
std::string root_scale_slot(int dimension) { return "root_scale/" + std::to_string(dimension); }
std::string basis_slot(int dimension) { return "basis/" + std::to_string(dimension); }
std::string eigenvalues_slot(int dimension) { return "eigenvalues/" + std::to_string(dimension); }

double exponent_of(std::span<const Exponent> exponents, int order, int dimension, double usual) {
  double exponent = usual;
  for (const Exponent& e : exponents)
    if (e.order == order && (!e.dimension || *e.dimension == dimension)) exponent = e.value;
  return exponent;
}

void check_places(std::span<const Exponent> exponents, const Checks& checks) {
  for (const Exponent& e : exponents) {
    checks.require(e.order >= 0, "exponents.order", ">= 0", e.order);
    if (e.dimension)
      checks.require(*e.dimension >= 0 && *e.dimension < std::max(e.order, 1),
                     "exponents.dimension", "in [0, max(order, 1))", *e.dimension);
  }
}

void check_factor_options(const std::optional<double>& trace_scaling, int tolerated_failures,
                          const Checks& checks) {
  if (trace_scaling)
    checks.require(*trace_scaling > 0 && *trace_scaling <= 1, "trace_scaling", "in (0, 1]",
                   *trace_scaling);
  checks.require(tolerated_failures >= 0, "tolerated_failures", ">= 0", tolerated_failures);
}

std::span<const RateUse> factor_rates(bool has_pseudo_inverse) {
  using enum RateRange;
  static constexpr std::array<RateUse, 2> usual{{{"beta2", unit_closed}, {"epsilon", normal}}};
  static constexpr std::array<RateUse, 2> cutting{{{"beta2", unit_closed}, {"epsilon", zero_only}}};
  return has_pseudo_inverse ? cutting : usual;
}

RefreshWork basis_refresh(const BasisMethod& method) {
  if (const auto* const qr = std::get_if<Qr>(&method))
    return {.cubic = 2 + 5 * qr->max_iterations, .quadratic = 400 * qr->max_iterations};
  return {.cubic = 10, .quadratic = 6000};
}

PreconditionerWork factor_work(const RefreshWork& refresh, std::int64_t elements,
                               std::int64_t side) {
  const std::int64_t square = side * side;
  // passes over factor and root, or basis; G x G, half of it
  return {.factors = factor_passes * square + product_work(elements, side) / 2,
          .refresh = (refresh.cubic * side + refresh.quadratic) * square};
}

std::int64_t product_work(std::int64_t elements, std::int64_t side) {
  return 2 * elements * (side + product_overhead);
}

std::string_view basis_method_name(const BasisMethod& method) {
  return std::visit([](const auto& solver) { return std::string_view(solver.name); }, method);
}

void add_basis_slots(int dimension, Type type, std::vector<Slot>& slots) {
  slots.push_back({.name = factor_slot(dimension),
                   .layout = StateLayout::symmetric,
                   .dimension = dimension,
                   .type = type,
                   .array = kernels::FactorLayout::packed});
  slots.push_back({.name = basis_slot(dimension),
                   .layout = StateLayout::square,
                   .dimension = dimension,
                   .type = type,
                   .initial = Slot::Initial::identity});
}

FactoredPreconditioner::FactoredPreconditioner(const PreconditionerContext& context,
                                               const FactorOptions& options,
                                               std::unique_ptr<kernels::FactorSolver> solver)
    : recipe_(context.recipe),
      backend_(context.backend),
      stacks_(context.stacks.begin(), context.stacks.end()),
      options_(options),
      columns_(context.columns),
      solver_(std::move(solver)),
      failures_(context.extents.size(), 0) {
  for (std::size_t s = 0; s < stacks_.size(); ++s)
    for (std::size_t k = 0; k < stacks_[s].extent.size(); ++k)
      stacks_[s].factors.push_back(
          context.state.arrays(static_cast<int>(s), factor_slot(static_cast<int>(k))));
}

void FactoredPreconditioner::add_job(const PreconditionerContext& context, std::size_t block,
                                     int dimension, double exponent) {
  const int b = static_cast<int>(block);
  const std::vector<Slot> slots = context.state.slots(b);
  const auto data = [&](const std::string& name) -> void* {
    const auto slot = std::ranges::find(slots, name, &Slot::name);
    return slot == slots.end() ? nullptr : context.state.data(b, *slot);
  };
  const auto factor = std::ranges::find(slots, factor_slot(dimension), &Slot::name);
  if (factor == slots.end()) return;
  all_jobs_.push_back({.pair = context.state.data(b, *factor),
                       .side = context.extents[block][static_cast<std::size_t>(dimension)],
                       .layout = factor->array,
                       .basis = data(basis_slot(dimension)),
                       .values = data(eigenvalues_slot(dimension)),
                       .exponent = exponent,
                       .phase = context.turns[block]});
}

void FactoredPreconditioner::reserve_solver(const PreconditionerContext& context) {
  for (kernels::Stack& stack : stacks_) stack.whitens = whitens();
  jobs_ = all_jobs_;
  job_blocks_.resize(jobs_.size());
  solver_->share(context.scratch);
  solver_->reserve(context.columns, all_jobs_);
  const kernels::SolverCalls calls = solver_->calls();
  for (const Chunk& chunk : context.chunks)
    backend_.reserve(chunk.of(stacks_), arithmetic_type(recipe_), calls);
}

double FactoredPreconditioner::bias_correction(const Rates& rates, std::int64_t step) const {
  if (!recipe_.bias_correction || options_.drop_weighting || rates.beta2 == 1) return 1;
  return 1 - std::pow(rates.beta2, static_cast<double>(step));
}

void FactoredPreconditioner::set_coefficients(const Rates& rates, std::int64_t /*step*/,
                                              kernels::Coefficients& coefficients) const {
  coefficients.factor_keep = rates.beta2;
  coefficients.factor_add = rates.beta2 == 1 || options_.drop_weighting ? 1 : 1 - rates.beta2;
}

void FactoredPreconditioner::prepare(std::span<const BlockStep> blocks) {
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
  solver_->place(jobs());
}

void FactoredPreconditioner::accumulate(StepContext& step) {
  if (!recipe_.refresh.first) return;
  const PhaseRange range(step.clock, Phase::factors);
  const bool normalizes = options_.statistic == Statistic::whitened_normalized;
  for (const ChunkContext& chunk : step.chunks) {
    const void* const masters = chunk.gradients.masters;
    if (whitens())
      // L_k <- beta2 L_k + (1 - beta2) H x_{j != k} H, with H = G x_{j != k} R_j       [Lin 2025]
      backend_.accumulate_whitened_factors(chunk.pass, chunk.of(stacks_), chunk.present, masters,
                                           normalizes);
    else
      // L_k <- beta2 L_k + (1 - beta2) G x_{j != k} G                   [Gupta 2018, Algorithm 2]
      backend_.accumulate_factors(chunk.pass, chunk.of(stacks_), chunk.present, masters);
  }
}

void FactoredPreconditioner::refresh(StepContext& step) {
  const bool recorded = step.refreshing != Refreshing::due;
  if (step.refreshing == Refreshing::none || (recorded ? solver_->waits() : !refreshes())) return;
  const PhaseRange range(step.clock, Phase::roots);
  solver_->enqueue(rows_of(step.refreshing), step.chunks.front().pass.proceed);
  if (!solver_->waits()) return;
  solver_->collect(jobs());
  count(step.statistics);
}

std::string_view FactoredPreconditioner::waiting_solver() const {
  return refreshes() && solver_->waits() ? options_.solver : std::string_view();
}

void FactoredPreconditioner::collect(Statistics& statistics) {
  if (!refreshes() || solver_->waits()) return;
  solver_->collect(jobs());
  count(statistics);
}

void FactoredPreconditioner::count(Statistics& statistics) {
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

void FactoredPreconditioner::recompute(std::span<const BlockStep> blocks, Statistics& statistics) {
  prepare(blocks);
  if (!refreshes()) return;
  columns_.upload();
  solver_->enqueue();
  backend_.synchronize();
  solver_->collect(jobs());
  count(statistics);
  job_count_ = 0;
}

std::int64_t FactoredPreconditioner::exhausted_block() const {
  if (!counted_) return -1;
  for (std::size_t j = 0; j < job_count_; ++j)
    if (failures_[job_blocks_[j]] > options_.tolerated_failures)
      return static_cast<std::int64_t>(job_blocks_[j]);
  return -1;
}

}  // namespace shampoo
