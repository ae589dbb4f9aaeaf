// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/solvers/inverse_root.h"

namespace shampoo::kernels {

/// Runs the iteration for the chunk in `workspace`, whose jobs share one root p/q, and stores the
/// roots that it finds. Returns one flag per matrix: 0 where the root was stored. Waits.

/// Coupled inverse Newton iteration, q = 1. A matrix that has not converged after max_iterations
/// keeps what it has reached.
std::span<const std::int32_t> coupled_newton(SolverWorkspace& workspace, Rational root,
                                             const CoupledNewton& options, double trace_exponent);

/// Coupled iteration of higher order; fails where |A X^p - I| > 0.1 in the end.
std::span<const std::int32_t> coupled_higher_order(SolverWorkspace& workspace, Rational root,
                                                   const CoupledHigherOrder& options,
                                                   double trace_exponent);

}  // namespace shampoo::kernels
