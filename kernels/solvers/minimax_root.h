// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/solvers/minimax_schedule.h"
#include "kernels/solvers/rational.h"
#include "kernels/solvers/solver.h"
#include "kernels/solvers/solver_workspace.h"

namespace shampoo::kernels {

/// Number of dense matrices that enqueue_minimax() uses.
inline constexpr int minimax_matrices = 4;

/// The fixed sequence of products that computes one root, coupled as in Newton's iteration
/// [Iannazzo 2006; Guo 2006, (3.2)] with the polynomials of minimax_schedule():
///
///     M <- damped A, scaled to [1 / kappa, 1] ; X <- I
///     Q <- a I + b M + c M^2 ; N <- Q or Q^2 + d Q + e M + f I
///     X <- X N ; M <- N^p M                                             once for every step
///     X <- scale^-exponent X^q
struct MinimaxPlan {
  double exponent = 0.25;
  Rational root;  ///< p / q = 1 / exponent, with p >= 2: not always in lowest terms
  double kappa_max = 0;
  bool mixes = false;       ///< products of well-conditioned matrices may be in half precision
  bool mixes_root = false;  ///< X is well-conditioned in all steps
  std::vector<MinimaxStep> steps;  ///< at least two, as kappa_max is at least 10
};

/// Throws std::invalid_argument for an exponent that Minimax does not support.
MinimaxPlan plan_minimax(double exponent, const Minimax& options, Type arithmetic);

/// Queues the roots of the workspace's chunk, all of the plan's exponent, and writes its rows of
/// `failed` and `clamped`. Nothing is stored where *proceed ([backend]; null: 1) is 0, and for rows
/// that are not active. The calls of the backend depend only on the plan and on the sides in the
/// chunk. Does not wait.
void enqueue_minimax(SolverWorkspace& workspace, const MinimaxPlan& plan, double trace_exponent,
                     const std::int32_t* proceed);

}  // namespace shampoo::kernels
