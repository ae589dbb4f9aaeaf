// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/eigenvalue_corrected.h"

#include <algorithm>
#include <set>

#include "kernels/solvers/basis_solver.h"
#include "shampoo/preconditioners/factored.h"
#include "shampoo/trace/step_clock.h"
#include "shampoo/validation/validate_solver.h"

namespace shampoo {

namespace {

constexpr const char* moment_slot = "corrected_eigenvalues";
constexpr const char* rotated_first_moment_slot = "rotated_filtered_gradient";

bool is_ignored(const EigenvalueCorrected& kind, int order, int dimension) {
  return std::ranges::any_of(kind.ignored_basis_change_dims, [&](const IgnoredDimensions& i) {
    return i.order == order && std::ranges::find(i.dimensions, dimension) != i.dimensions.end();
  });
}

double exponent_of(const EigenvalueCorrected& kind, std::size_t order) {
  return exponent_of(kind.exponents, static_cast<int>(order), 0, 0.5);
}

/// Calls visit(dimension) for the dimensions that have a factor.
template <typename Visit>
void for_each_factor(const EigenvalueCorrected& kind, const Recipe& recipe, int order,
                     const Visit& visit) {
  if (!recipe.refresh.first) return;
  for (int k = 0; k < order; ++k)
    if (!is_ignored(kind, order, k)) visit(k);
}

class EigenvalueCorrectedPreconditioner final : public FactoredPreconditioner {
 public:
  EigenvalueCorrectedPreconditioner(const EigenvalueCorrected& kind,
                                    const PreconditionerContext& context)
      : FactoredPreconditioner(
            context, {basis_method_name(kind.solver), kind.drop_weighting, kind.tolerated_failures},
            std::make_unique<kernels::BasisSolver>(context.backend, arithmetic_type(context.recipe),
                                                   kind.solver, kind.trace_scaling.value_or(0))),
        moment_(context.state.flat(moment_slot)),
        first_moment_(context.state.flat(rotated_first_moment_slot)) {
    for (std::size_t s = 0; s < stacks_.size(); ++s) {
      kernels::Stack& stack = stacks_[s];
      stack.layout = kernels::FactorLayout::packed;
      stack.exponent = exponent_of(kind, stack.extent.size());
      for (std::size_t k = 0; k < stack.extent.size(); ++k)
        stack.bases.push_back(
            context.state.arrays(static_cast<int>(s), basis_slot(static_cast<int>(k))));
    }
    if (first_moment_ != nullptr) due_ = context.columns.add<kernels::Mode>(context.extents.size());
    reserve_jobs(context, [](int, int) { return 1.0; });
  }

  void prepare(std::span<const BlockStep> blocks) override {
    FactoredPreconditioner::prepare(blocks);
    if (first_moment_ == nullptr) return;
    for (std::size_t b = 0; b < blocks.size(); ++b)
      due_[b] = blocks[b].due ? kernels::Mode::preconditioned : kernels::Mode::absent;
  }

  void set_coefficients(const Rates& rates, std::int64_t step,
                        kernels::Coefficients& coefficients) const override {
    FactoredPreconditioner::set_coefficients(rates, step, coefficients);
    coefficients.preconditioner = {.keep = coefficients.factor_keep,
                                   .add = coefficients.factor_add,
                                   .scale = 1 / bias_correction(rates, step),
                                   .epsilon = rates.epsilon};
  }

  /// M <- M x_k Q_k^T with the old bases, then M <- M x_k Q_k with the new ones.
  void refresh(StepContext& step) override {
    if (first_moment_ == nullptr || step.refreshing != Refreshing::due || !refreshes())
      return FactoredPreconditioner::refresh(step);
    const PhaseRange range(step.clock, Phase::roots);
    rotate_first_moment(step, true);
    FactoredPreconditioner::refresh(step);
    rotate_first_moment(step, false);
  }

  void apply(ChunkContext& chunk) override {
    if (!uses_eigenbases(recipe_)) return;
    const PhaseRange range(chunk.clock, Phase::precondition);
    // E <- beta2 E + (1 - beta2) (G x_k Q_k)^2                     [Vyas 2024, Algorithm 3]
    // P <- ((F x_k Q_k) / ((E / (1 - beta2^t))^x + epsilon)) x_k Q_k^T, and |P|^2
    backend_.precondition_in_eigenbasis(chunk.pass, chunk.of(stacks_), chunk.present,
                                        {.masters = chunk.gradients.masters,
                                         .second_moment = chunk.elements(moment_),
                                         .filters = filters_gradient(recipe_),
                                         .first_moment = chunk.elements(first_moment_),
                                         .direction = chunk.gradients.direction,
                                         .direction_norms = chunk.direction_norms});
  }

 private:
  /// Of blocks that are due.
  void rotate_first_moment(const StepContext& step, bool transposed) {
    for (const ChunkContext& chunk : step.chunks) {
      kernels::PassContext due = chunk.pass;
      due.modes = due_.data() + chunk.place.first_block;
      backend_.rotate(due, chunk.of(stacks_), chunk.present, transposed,
                      chunk.elements(first_moment_));
    }
  }

  void* moment_;        ///< [backend] E
  void* first_moment_;  ///< [backend] M in the eigenbases; null: another pass filters
  /// Per block of this rank: preconditioned where it is due, otherwise absent.
  kernels::StagedArray<kernels::Mode> due_;
};

}  // namespace

void check(const EigenvalueCorrected& kind, const Recipe&, const Checks& checks) {
  check_basis_method(kind.solver, false, checks);
  check_places(kind.exponents, checks);
  for (const Exponent& e : kind.exponents) {
    checks.require(!e.dimension, "exponents.dimension", "empty for one second moment",
                   e.dimension.value_or(0));
    checks.positive("exponents.value", e.value);
  }
  for (const IgnoredDimensions& i : kind.ignored_basis_change_dims) {
    checks.require(i.order >= 0, "ignored_basis_change_dims.order", ">= 0", i.order);
    for (const int k : i.dimensions)
      checks.require(k >= 0 && k < std::max(i.order, 1), "ignored_basis_change_dims.dimensions",
                     "in [0, max(order, 1))", k);
    checks.require(std::set(i.dimensions.begin(), i.dimensions.end()).size() == i.dimensions.size(),
                   "ignored_basis_change_dims.dimensions", "different from each other",
                   i.dimensions.size());
  }
  check_factor_options(kind.trace_scaling, kind.tolerated_failures, checks);
}

bool has_refresh(const EigenvalueCorrected&, const Recipe&) { return true; }

bool acts_before_refresh(const EigenvalueCorrected&, const Recipe&) { return true; }

bool filters_gradient(const EigenvalueCorrected&, const Recipe& recipe) { return !recipe.grafting; }

std::span<const RateUse> rates(const EigenvalueCorrected&, const Recipe& recipe, Role) {
  if (!uses_eigenbases(recipe)) return {};
  return factor_rates(false);
}

std::vector<Slot> slots(const EigenvalueCorrected& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role) {
  std::vector<Slot> slots;
  for_each_factor(kind, recipe, static_cast<int>(extent.size()),
                  [&](int k) { add_basis_slots(k, arithmetic_type(recipe), slots); });
  if (uses_eigenbases(recipe))
    slots.push_back({.name = moment_slot, .type = arithmetic_type(recipe), .in_basis = true});
  if (recipe.filter && filters_gradient(kind, recipe))
    slots.push_back(
        {.name = rotated_first_moment_slot, .type = arithmetic_type(recipe), .in_basis = true});
  return slots;
}

PreconditionerWork work(const EigenvalueCorrected& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent) {
  const std::int64_t elements = grouping::numel(extent);
  // G into the basis, and F unless it is computed there; P out of it
  const std::int64_t products = filters_gradient(kind, recipe) ? 2 : 3;
  PreconditionerWork cost;
  for_each_factor(kind, recipe, static_cast<int>(extent.size()), [&](int k) {
    cost += factor_work(basis_refresh(kind.solver), elements, extent[k]);
    cost.direction += products * product_work(elements, extent[k]);
  });
  return cost;
}

std::unique_ptr<GroupPreconditioner> make(const EigenvalueCorrected& kind,
                                          const PreconditionerContext& context, Role) {
  return std::make_unique<EigenvalueCorrectedPreconditioner>(kind, context);
}

}  // namespace shampoo
