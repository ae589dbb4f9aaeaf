// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/root_inverse.h"

#include <algorithm>
#include <vector>

#include "kernels/range.h"
#include "kernels/solvers/inverse_root.h"
#include "shampoo/validation/validate_solver.h"

namespace shampoo {

namespace {

/// An iteration is products alone, of which CoupledNewton and CoupledHigherOrder take as many as
/// the factor needs; otherwise a symmetric eigendecomposition and the product that forms the root.
RefreshWork root_refresh(const Solver& solver) {
  const auto products = [](std::int64_t n) { return RefreshWork{n, n * product_overhead}; };
  if (std::holds_alternative<Minimax>(solver)) return products(55);
  if (std::holds_alternative<CoupledNewton>(solver)) return products(60);
  if (std::holds_alternative<CoupledHigherOrder>(solver)) return products(130);
  return {.cubic = 12, .quadratic = 6000};
}

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

/// Calls visit(dimension) for the dimensions that have a factor.
template <typename Visit>
void for_each_factor(const RootInverse& kind, const Recipe& recipe, int order, const Visit& visit) {
  if (!recipe.refresh.first) return;
  for (int k = 0; k < order; ++k)
    if (exponent_of(kind, order, k) != 0) visit(k);
}

class RootInversePreconditioner final : public FactoredPreconditioner {
 public:
  RootInversePreconditioner(const RootInverse& kind, const PreconditionerContext& context,
                            Statistic statistic)
      : FactoredPreconditioner(
            context,
            {std::visit([](const auto& solver) { return std::string_view(solver.name); },
                        kind.solver),
             kind.drop_weighting, kind.tolerated_failures, statistic},
            std::make_unique<kernels::InverseRoot>(
                context.backend, arithmetic_type(context.recipe),
                solver_of(kind, context.backend, arithmetic_type(context.recipe)),
                kind.trace_scaling.value_or(0))) {
    reserve_jobs(context, [&](int order, int k) { return exponent_of(kind, order, k); });
  }

  void apply(StepContext& step) override {
    if (!recipe_.refresh.first) return;
    const kernels::Range range(backend_, "precondition");
    // P <- F x_k R_k, and |P|^2 of every block
    backend_.precondition(step.pass, stacks_, step.preconditioned, step.gradients.direction,
                          step.direction_norms);
  }
};

}  // namespace

void check(const RootInverse& kind, const Recipe& recipe, const Checks& checks) {
  check_solver(kind.solver, recipe.arithmetic, checks);
  check_places(kind.exponents, checks);
  for (const Exponent& e : kind.exponents) check_exponent(e.value, kind.solver, checks);
  check_factor_options(kind.trace_scaling, kind.tolerated_failures, checks);
}

double exponent_of(const RootInverse& kind, int order, int dimension) {
  return exponent_of(kind.exponents, order, dimension, usual_exponent(order));
}

bool has_refresh(const RootInverse&, const Recipe&) { return true; }

std::span<const RateUse> rates(const RootInverse& kind, const Recipe& recipe, Role) {
  if (!recipe.refresh.first) return {};
  return factor_rates(has_pseudo_inverse(kind));
}

std::vector<Slot> slots(const RootInverse& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role) {
  const Type type = arithmetic_type(recipe);
  std::vector<Slot> slots;
  for_each_factor(kind, recipe, static_cast<int>(extent.size()), [&](int k) {
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

PreconditionerWork work(const RootInverse& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent) {
  const std::int64_t elements = grouping::numel(extent);
  PreconditionerWork cost;
  for_each_factor(kind, recipe, static_cast<int>(extent.size()), [&](int k) {
    cost += factor_work(root_refresh(kind.solver), elements, extent[k]);
    cost.step += product_work(elements, extent[k]);
  });
  return cost;
}

std::unique_ptr<GroupPreconditioner> make(const RootInverse& kind,
                                          const PreconditionerContext& context, Role) {
  return make_with(Statistic::gradient, kind, context);
}

std::unique_ptr<GroupPreconditioner> make_with(Statistic statistic, const RootInverse& kind,
                                               const PreconditionerContext& context) {
  return std::make_unique<RootInversePreconditioner>(kind, context, statistic);
}

}  // namespace shampoo
