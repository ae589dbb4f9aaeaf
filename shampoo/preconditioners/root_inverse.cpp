// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/root_inverse.h"

#include <algorithm>
#include <vector>

#include "kernels/solvers/inverse_root.h"
#include "shampoo/trace/step_clock.h"
#include "shampoo/validation/validate_solver.h"

namespace shampoo {

namespace {

/// An iteration is products alone, of which CoupledNewton and CoupledHigherOrder take as many as
/// the factor needs; Eigen is a symmetric eigendecomposition and the product that forms the root.
RefreshWork root_refresh(const Solver& solver) {
  const auto products = [](std::int64_t n) { return RefreshWork{n, n * product_overhead}; };
  if (std::holds_alternative<Minimax>(solver)) return products(51);
  if (std::holds_alternative<CoupledNewton>(solver)) return products(60);
  if (std::holds_alternative<CoupledHigherOrder>(solver)) return products(130);
  if (std::holds_alternative<Eigen>(solver)) return {.cubic = 12, .quadratic = 6000};
  return {.cubic = 6, .quadratic = 2000};
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

kernels::FactorLayout layout_of(const RootInverse& kind) {
  using enum kernels::FactorLayout;
  return kind.root_type ? with_float16_root : with_root;
}

/// Calls visit(dimension) for the dimensions that have a factor.
template <typename Visit>
void for_each_factor(const RootInverse& kind, const Recipe& recipe,
                     std::span<const std::int64_t> extent, const Visit& visit) {
  if (!recipe.refresh.first || !acts_on(kind, extent)) return;
  const int order = static_cast<int>(extent.size());
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
    for (kernels::Stack& stack : stacks_) stack.layout = layout_of(kind);
    reserve_jobs(context, [&](int order, int k) { return exponent_of(kind, order, k); });
  }

  void accumulate(StepContext& step) override {
    FactoredPreconditioner::accumulate(step);
    if (backend_.memory_kind() == MemoryKind::host) return;
    // |F|^2 of every block, by which precondition() scales
    for (ChunkContext& chunk : step.chunks) chunk.gradients.direction_norms = chunk.direction_norms;
  }

  void apply(ChunkContext& chunk) override {
    if (!recipe_.refresh.first) return;
    const PhaseRange range(chunk.clock, Phase::precondition);
    // P <- F x_k R_k, and |P|^2 of every block
    backend_.precondition(chunk.pass, chunk.of(stacks_), chunk.preconditioned,
                          chunk.gradients.direction, chunk.direction_norms);
  }

  void apply_and_update(ChunkContext& chunk) override {
    backend_.precondition_and_update(chunk.pass, chunk.gradients, chunk.of(stacks_), chunk.present,
                                     chunk.direction_norms, chunk.update);
  }
};

}  // namespace

void check(const RootInverse& kind, const Recipe& recipe, const Checks& checks) {
  check_solver(kind.solver, recipe.arithmetic, checks);
  check_places(kind.exponents, checks);
  for (const Exponent& e : kind.exponents) check_exponent(e.value, kind.solver, checks);
  check_factor_options(kind.trace_scaling, kind.tolerated_failures, checks);
  if (kind.root_type)
    checks.require(*kind.root_type == Type::float16, "root_type", "float16 or not set",
                   name_of(*kind.root_type));
}

double exponent_of(const RootInverse& kind, int order, int dimension) {
  return exponent_of(kind.exponents, order, dimension, usual_exponent(order));
}

bool has_refresh(const RootInverse&, const Recipe&) { return true; }

bool acts_on(const RootInverse& kind, std::span<const std::int64_t> extent) {
  return kind.precondition_1d || extent.size() > 1;
}

std::span<const RateUse> rates(const RootInverse& kind, const Recipe& recipe, Role) {
  if (!recipe.refresh.first) return {};
  return factor_rates(has_pseudo_inverse(kind));
}

std::vector<Slot> slots(const RootInverse& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role) {
  const Type type = arithmetic_type(recipe);
  const kernels::FactorLayout array = layout_of(kind);
  std::vector<Slot> slots;
  for_each_factor(kind, recipe, extent, [&](int k) {
    slots.push_back({.name = factor_slot(k),
                     .layout = StateLayout::symmetric,
                     .dimension = k,
                     .type = type,
                     .array = array});
    Slot root{.name = root_slot(k),
              .layout = StateLayout::symmetric,
              .dimension = k,
              .type = kind.root_type.value_or(type),
              .initial = Slot::Initial::identity,
              .derived = true,
              .shares = factor_slot(k),
              .array = array,
              .array_type = type};
    slots.push_back(root);
    if (array != kernels::FactorLayout::with_float16_root) return;
    root.name = root_scale_slot(k);
    root.layout = StateLayout::vector;
    root.type = type;
    slots.push_back(std::move(root));
  });
  return slots;
}

PreconditionerWork work(const RootInverse& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent) {
  const std::int64_t elements = grouping::numel(extent);
  PreconditionerWork cost;
  for_each_factor(kind, recipe, extent, [&](int k) {
    cost += factor_work(root_refresh(kind.solver), elements, extent[k]);
    cost.direction += product_work(elements, extent[k]);
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
