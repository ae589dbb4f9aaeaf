// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/solvers/inverse_root.h"
#include "kernels/solvers/minimax_schedule.h"

namespace shampoo::kernels {

/// How one root is taken by products alone.
struct MinimaxPlan {
  double exponent = 0.25;
  Rational root;  ///< p / q = 1 / exponent, with p >= 2: not always in lowest terms
  double kappa_max = 0;
  bool mixes = false;  ///< products of well-conditioned matrices may be in half precision
  std::vector<MinimaxStep> steps;
};

/// The exponent must be one that Minimax takes.
MinimaxPlan plan_minimax(double exponent, const Minimax& options, Type arithmetic);

/// Queues the roots of the workspace's chunk, all of the plan's exponent, and writes its rows of
/// the columns failed and raised. Nothing is stored where *proceed ([backend]; null: 1) is 0. Calls
/// of the backend depend on the plan and on the sides in the chunk alone. Does not wait.
void queue_minimax(SolverWorkspace& workspace, const MinimaxPlan& plan, double trace_exponent,
                   const std::int32_t* proceed);

}  // namespace shampoo::kernels
