// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/eigendecomposed.h"

#include <algorithm>

#include "kernels/buffer.h"
#include "kernels/solvers/basis_solver.h"
#include "kernels/solvers/eigen_root.h"
#include "shampoo/trace/step_clock.h"
#include "shampoo/validation/validate_solver.h"

namespace shampoo {

namespace {

double exponent_of(const Eigendecomposed& kind, int order, int dimension) {
  return exponent_of(kind.exponents, order, dimension, usual_exponent(order));
}

/// Calls visit(dimension) for the dimensions that are preconditioned.
template <typename Visit>
void for_each_dimension(const Eigendecomposed& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, const Visit& visit) {
  if (!uses_eigenbases(recipe) || !acts_on(kind, extent)) return;
  const int order = static_cast<int>(extent.size());
  for (int k = 0; k < order; ++k)
    if (exponent_of(kind, order, k) != 0) visit(k);
}

class EigendecomposedPreconditioner final : public FactoredPreconditioner {
 public:
  EigendecomposedPreconditioner(const Eigendecomposed& kind, const PreconditionerContext& context,
                                Statistic statistic);

  void prepare(std::span<const BlockStep> blocks) override;
  void accumulate(StepContext& step) override;
  void apply(ChunkContext& chunk) override;
  std::int64_t workspace_bytes() const override;

 private:
  void add_scales(const Eigendecomposed& kind, const PreconditionerContext& context, std::size_t s,
                  int dimension);
  void compute_scales(const Chunk& chunk);

  /// The eigenvalues of one dimension of a stack, and l^-e.
  struct Scales {
    const void* values;  ///< [backend]
    kernels::Buffer powers;
  };

  kernels::Spectrum spectrum_;
  kernels::StagedArray<double> epsilons_, exponents_;  ///< per row
  std::vector<std::size_t> row_blocks_;
  std::vector<double> row_exponents_;
  std::vector<Scales> scales_;
  std::vector<kernels::SquareMatrixBatch> batches_;  ///< of the powers
  std::vector<std::size_t> first_scales_;            ///< per stack, and the end
  std::size_t stack_begin_ = 0;                      ///< first block of the stack that is added
};

EigendecomposedPreconditioner::EigendecomposedPreconditioner(const Eigendecomposed& kind,
                                                             const PreconditionerContext& context,
                                                             Statistic statistic)
    : FactoredPreconditioner(
          context,
          {basis_method_name(kind.solver), kind.drop_weighting, kind.tolerated_failures, statistic},
          std::make_unique<kernels::BasisSolver>(context.backend, arithmetic_type(context.recipe),
                                                 kind.solver, kind.trace_scaling.value_or(0))),
      spectrum_(kernels::spectrum_of(kernels::eigen_of(kind.solver))) {
  for (std::size_t s = 0; s < stacks_.size(); ++s) {
    kernels::Stack& stack = stacks_[s];
    stack.layout = kernels::FactorLayout::packed;
    first_scales_.push_back(scales_.size());
    for (int k = 0; k < static_cast<int>(stack.extent.size()); ++k) {
      stack.bases.push_back(context.state.arrays(static_cast<int>(s), basis_slot(k)));
      add_scales(kind, context, s, k);
    }
    stack_begin_ += static_cast<std::size_t>(stack.count);
  }
  first_scales_.push_back(scales_.size());
  epsilons_ = context.columns.add<double>(row_blocks_.size());
  exponents_ = context.columns.add<double>(row_blocks_.size());
  reserve_jobs(context, [](int, int) { return 1.0; });
}

void EigendecomposedPreconditioner::add_scales(const Eigendecomposed& kind,
                                               const PreconditionerContext& context, std::size_t s,
                                               int dimension) {
  kernels::Stack& stack = stacks_[s];
  const void* const values = context.state.arrays(static_cast<int>(s), eigenvalues_slot(dimension));
  stack.scales.push_back(nullptr);
  if (values == nullptr) return;
  const Type type = arithmetic_type(recipe_);
  const std::int64_t side = stack.extent[static_cast<std::size_t>(dimension)];
  scales_.push_back(
      {values,
       kernels::Buffer(backend_, static_cast<std::size_t>(stack.count * side) * size_of(type))});
  void* const powers = scales_.back().powers.data();
  stack.scales.back() = powers;
  batches_.push_back(
      {type, side, stack.count, static_cast<std::int64_t>(row_blocks_.size()), powers, powers});
  for (std::int64_t b = 0; b < stack.count; ++b) {
    row_blocks_.push_back(stack_begin_ + static_cast<std::size_t>(b));
    row_exponents_.push_back(exponent_of(kind, static_cast<int>(stack.extent.size()), dimension));
  }
}

void EigendecomposedPreconditioner::prepare(std::span<const BlockStep> blocks) {
  FactoredPreconditioner::prepare(blocks);
  for (std::size_t row = 0; row < row_blocks_.size(); ++row) {
    const Rates* const rates = blocks[row_blocks_[row]].rates;
    exponents_[row] = row_exponents_[row];
    if (rates != nullptr) epsilons_[row] = rates->epsilon;
  }
}

/// s_k <- l_k^-e_k, damped with the current epsilon
void EigendecomposedPreconditioner::compute_scales(const Chunk& chunk) {
  const std::size_t first = first_scales_[chunk.first_stack], end = first_scales_[chunk.end_stack];
  for (std::size_t i = first; i < end; ++i)
    backend_.copy(scales_[i].powers.data(), scales_[i].values, scales_[i].powers.bytes());
  spectrum_.epsilons = epsilons_.data();
  spectrum_.exponents = exponents_.data();
  backend_.root_spectrum(std::span(batches_).subspan(first, end - first), spectrum_);
}

void EigendecomposedPreconditioner::accumulate(StepContext& step) {
  if (!whitens()) return FactoredPreconditioner::accumulate(step);
  const PhaseRange range(step.clock, Phase::factors);
  for (const ChunkContext& chunk : step.chunks) compute_scales(chunk.place);
  FactoredPreconditioner::accumulate(step);
}

void EigendecomposedPreconditioner::apply(ChunkContext& chunk) {
  if (!uses_eigenbases(recipe_)) return;
  const PhaseRange range(chunk.clock, Phase::precondition);
  compute_scales(chunk.place);
  // P <- F x_k Q_k diag(l_k^-e_k) Q_k^T, and |P|^2 of every block
  backend_.precondition_in_eigenbasis(
      chunk.pass, chunk.of(stacks_), chunk.present,
      {.direction = chunk.gradients.direction, .direction_norms = chunk.direction_norms});
}

std::int64_t EigendecomposedPreconditioner::workspace_bytes() const {
  std::size_t bytes = 0;
  for (const Scales& scales : scales_) bytes += scales.powers.bytes();
  return FactoredPreconditioner::workspace_bytes() + static_cast<std::int64_t>(bytes);
}

}  // namespace

void check(const Eigendecomposed& kind, const Recipe&, const Checks& checks) {
  check_basis_method(kind.solver, true, checks);
  check_places(kind.exponents, checks);
  for (const Exponent& e : kind.exponents) checks.at_least_zero("exponents.value", e.value);
  check_factor_options(kind.trace_scaling, kind.tolerated_failures, checks);
}

bool has_refresh(const Eigendecomposed&, const Recipe&) { return true; }

bool acts_before_refresh(const Eigendecomposed&, const Recipe&) { return true; }

bool acts_on(const Eigendecomposed& kind, std::span<const std::int64_t> extent) {
  return kind.precondition_1d || extent.size() > 1;
}

std::span<const RateUse> rates(const Eigendecomposed& kind, const Recipe& recipe, Role) {
  if (!uses_eigenbases(recipe)) return {};
  const auto* const eigh = std::get_if<Eigh>(&kind.solver);
  const std::span<const RateUse> both = factor_rates(eigh != nullptr && eigh->pseudo_inverse);
  return recipe.refresh.first ? both : both.subspan(1);  // without factors, epsilon alone
}

std::vector<Slot> slots(const Eigendecomposed& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role) {
  const Type type = arithmetic_type(recipe);
  std::vector<Slot> slots;
  for_each_dimension(kind, recipe, extent, [&](int k) {
    if (recipe.refresh.first) add_basis_slots(k, type, slots);
    slots.push_back({.name = eigenvalues_slot(k),
                     .layout = StateLayout::vector,
                     .dimension = k,
                     .type = type,
                     .initial = Slot::Initial::identity});
  });
  return slots;
}

PreconditionerWork work(const Eigendecomposed& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent) {
  const std::int64_t elements = grouping::numel(extent);
  PreconditionerWork cost;
  if (!recipe.refresh.first) return cost;
  for_each_dimension(kind, recipe, extent, [&](int k) {
    cost += factor_work(basis_refresh(kind.solver), elements, extent[k]);
    cost.direction += 2 * product_work(elements, extent[k]);  // F into the basis, P out of it
  });
  return cost;
}

std::unique_ptr<GroupPreconditioner> make(const Eigendecomposed& kind,
                                          const PreconditionerContext& context, Role) {
  return make_with(Statistic::gradient, kind, context);
}

std::unique_ptr<GroupPreconditioner> make_with(Statistic statistic, const Eigendecomposed& kind,
                                               const PreconditionerContext& context) {
  return std::make_unique<EigendecomposedPreconditioner>(kind, context, statistic);
}

}  // namespace shampoo
