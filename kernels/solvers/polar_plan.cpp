// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/polar_plan.h"

#include <algorithm>
#include <cmath>

#include "kernels/solvers/minimax_schedule.h"

namespace shampoo::kernels {

namespace {

/// A matrix of this norm or less counts as zeros; its square is no denormal number.
constexpr double least_norm = 1e-150;

/// Rounding makes eigenvalues of R uncertain by 2^-24 of the largest, and a step multiplies small
/// ones by a^2: by this rule they stay below 2^-6, where Q is still a I.
bool grows_little(const NewtonSchulz& solver) {
  return std::pow(solver.coefficients[0], 2 * solver.iterations) <= 0x1p18;
}

struct Planner {
  std::int64_t rows, columns;

  PolarPlan operator()(const NewtonSchulz& solver) const {
    const bool is_long = std::max(rows, columns) > 2 * std::min(rows, columns);
    return {.steps = std::vector(static_cast<std::size_t>(solver.iterations), solver.coefficients),
            .on_gram = is_long && grows_little(solver),
            .floor = 1e-8};
  }

  PolarPlan operator()(const PolarExpress& solver) const {
    // The iteration M <- N^2 M of inverse square roots is that of M = X X^T here. |F|_F is up to
    // sqrt(side) of the largest singular value: M_0 has eigenvalues in [1 / (kappa^2 side), 1].
    const auto side = static_cast<double>(std::min(rows, columns));
    const double kappa = solver.kappa_max * solver.kappa_max * side;
    PolarPlan plan{.steps = {}, .floor = least_norm};
    // Of one singular value, which is 1 from the start, the schedule would have no interval.
    for (const MinimaxStep& step : minimax_schedule(2, std::max(kappa, 1.01), solver.tolerance, 2))
      plan.steps.push_back(step.coefficients);
    return plan;
  }

  PolarPlan operator()(const Svd& solver) const {
    return {.steps = {}, .floor = least_norm, .nuclear = solver.scale_by_nuclear_norm};
  }
};

}  // namespace

PolarPlan plan_polar(const Orthogonalizer& solver, std::int64_t rows, std::int64_t columns,
                     double scale) {
  PolarPlan plan = std::visit(Planner{rows, columns}, solver);
  plan.scale = scale;
  return plan;
}

bool has_plans_on_gram(const Orthogonalizer& solver) {
  const auto* const newton_schulz = std::get_if<NewtonSchulz>(&solver);
  return newton_schulz != nullptr && grows_little(*newton_schulz);
}

double polar_operations(const PolarPlan& plan, std::int64_t rows, std::int64_t columns) {
  const auto k = static_cast<double>(std::min(rows, columns));
  const auto l = static_cast<double>(std::max(rows, columns));
  // A decomposition takes about 6 l k^2 + 20 k^3 [Golub 2013, 8.6], half of it at the speed of
  // memory.
  if (plan.steps.empty()) return 3 * (6 * l * k * k + 20 * k * k * k);
  // X X^T and R^2 by one triangle, and the product with X, or three with R
  const auto steps = static_cast<double>(plan.steps.size());
  if (plan.on_gram) return 3 * l * k * k + (7 * steps - 6) * k * k * k;
  return steps * (3 * l * k * k + k * k * k);
}

}  // namespace shampoo::kernels
