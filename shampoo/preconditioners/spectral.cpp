// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/spectral.h"

#include <algorithm>
#include <cmath>

#include "kernels/solvers/polar_plan.h"
#include "shampoo/preconditioners/without_refresh.h"
#include "shampoo/trace/step_clock.h"

namespace shampoo {

namespace {

/// LAPACK counts its workspace of 4 side^2 numbers in 32 bits.
constexpr std::int64_t longest_decomposed_side = 16'000;

double scale_of(SpectralScale scale, std::int64_t rows, std::int64_t columns) {
  const auto m = static_cast<double>(rows), n = static_cast<double>(columns);
  switch (scale) {
    case SpectralScale::none:
      break;
    case SpectralScale::spectral:
      return std::sqrt(std::max(1.0, m / n));
    case SpectralScale::match_rms:
      return 0.2 * std::sqrt(std::max(m, n));
  }
  return 1;
}

kernels::PolarPlan plan_of(const Spectral& kind, std::span<const std::int64_t> extent) {
  return kernels::plan_polar(kind.solver, extent[0], extent[1],
                             scale_of(kind.scale, extent[0], extent[1]));
}

class SpectralPreconditioner final : public WithoutRefresh {
 public:
  SpectralPreconditioner(const Spectral& kind, const PreconditionerContext& context)
      : backend_(context.backend),
        stacks_(context.stacks.begin(), context.stacks.end()),
        waits_(std::holds_alternative<Svd>(kind.solver)) {
    for (const kernels::Stack& stack : stacks_) {
      plans_.push_back(plan_of(kind, stack.extent));
      // Before Refresh::first they have that of the grafting.
      plans_.back().keeps_others = context.recipe.grafting.has_value();
    }
    for (const Chunk& chunk : context.chunks) {
      const auto stacks = chunk.of(stacks_);
      const auto plans = chunk.of(plans_);
      const Type type = arithmetic_type(context.recipe);
      if (context.stored == StoredDirection::block)
        backend_.reserve_orthogonalization_and_update(stacks, plans, type);
      else
        backend_.reserve_orthogonalization(stacks, plans, type);
    }
  }

  void set_coefficients(const Rates&, std::int64_t, kernels::Coefficients&) const override {}
  void accumulate(StepContext&) override {}

  void apply(ChunkContext& chunk) override {
    const PhaseRange range(chunk.clock, Phase::precondition);
    // P <- scale U V^T, with F = U S V^T, and |P|^2 of every block                   [Jordan 2024]
    backend_.orthogonalize(chunk.pass, chunk.of(stacks_), chunk.preconditioned, chunk.of(plans_),
                           chunk.gradients.direction, chunk.direction_norms);
  }

  void apply_and_update(ChunkContext& chunk) override {
    backend_.orthogonalize_and_update(chunk.pass, chunk.gradients, chunk.of(stacks_),
                                      chunk.preconditioned, chunk.of(plans_), chunk.direction_norms,
                                      chunk.update);
  }

  std::string_view waiting_solver() const override {
    return waits_ ? Svd::name : std::string_view();
  }

 private:
  kernels::Backend& backend_;
  std::vector<kernels::Stack> stacks_;
  std::vector<kernels::PolarPlan> plans_;  ///< per stack
  bool waits_;
};

struct OrthogonalizerChecks {
  const Checks& checks;
  Arithmetic arithmetic;

  void operator()(const NewtonSchulz& s) const {
    checks.require(s.iterations >= 1 && s.iterations <= 100, "solver.iterations", "in [1, 100]",
                   s.iterations);
    for (const double c : s.coefficients)
      checks.require(std::isfinite(c), "solver.coefficients", "finite", c);
  }
  void operator()(const PolarExpress& s) const {
    const bool narrow = arithmetic == Arithmetic::float32;
    checks.require(s.kappa_max >= 1 && s.kappa_max <= (narrow ? 1e4 : 1e7), "solver.kappa_max",
                   narrow ? "in [1, 1e4] in float32" : "in [1, 1e7] in float64", s.kappa_max);
    checks.require(s.tolerance >= 1e-6 && s.tolerance < 1, "solver.tolerance", "in [1e-6, 1)",
                   s.tolerance);
  }
  void operator()(const Svd&) const {}
};

}  // namespace

void check(const Spectral& kind, const Recipe& recipe, const Checks& checks) {
  std::visit(OrthogonalizerChecks{checks, recipe.arithmetic}, kind.solver);
}

std::string block_fault(const Spectral& kind, std::span<const std::int64_t> extent) {
  if (extent.size() != 2)
    return "the preconditioner spectral takes matrices, and this tensor has " +
           std::to_string(extent.size()) + (extent.size() == 1 ? " dimension" : " dimensions") +
           " after small ones were merged" +
           (extent.size() > 2 ? " (down to 2 with recipe.blocking.target_order 2 and a "
                                "recipe.blocking.size of at least their product)"
                              : "") +
           "; put it into another group, for example with recipes::adamw()";
  if (std::holds_alternative<Svd>(kind.solver) &&
      std::max(extent[0], extent[1]) > longest_decomposed_side)
    return "recipe.blocking.size: a side of " + std::to_string(std::max(extent[0], extent[1])) +
           " must be cut to at most " + std::to_string(longest_decomposed_side) +
           " for the solver svd";
  return {};
}

bool has_refresh(const Spectral&, const Recipe&) { return false; }

bool is_blockwise(const Spectral& kind, const Recipe& recipe) {
  return !recipe.grafting && kernels::has_plans_on_gram(kind.solver);
}

std::span<const RateUse> rates(const Spectral&, const Recipe&, Role) { return {}; }

std::vector<Slot> slots(const Spectral&, const Recipe&, std::span<const std::int64_t>, Role) {
  return {};
}

PreconditionerWork work(const Spectral& kind, const Recipe&, std::span<const std::int64_t> extent) {
  const auto side = static_cast<double>(std::min(extent[0], extent[1]));
  return {.direction = static_cast<std::int64_t>(
              kernels::polar_operations(plan_of(kind, extent), extent[0], extent[1]) *
              (1 + static_cast<double>(product_overhead) / side))};
}

std::unique_ptr<GroupPreconditioner> make(const Spectral& kind,
                                          const PreconditionerContext& context, Role) {
  return std::make_unique<SpectralPreconditioner>(kind, context);
}

}  // namespace shampoo
