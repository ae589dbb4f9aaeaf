// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/solvers/solver.h"
#include "kernels/solvers/solver_workspace.h"

namespace shampoo::kernels {

/// Number of dense matrices that tridiagonal_root() uses.
inline constexpr int tridiagonal_root_matrices = 2;

/// The partial fractions of one exponent.
struct TridiagonalPlan {
  double exponent = 0.25;
  double kappa_max = 0;
  std::vector<PartialFraction> fractions;
};

/// `exponent`: in (0, 1).
TridiagonalPlan plan_tridiagonal(double exponent, const Tridiagonal& options, Type arithmetic);

/// Computes the roots of the workspace's chunk, all of the plan's exponent, and stores them.
/// Returns one flag per row: 0 where the root was stored. Waits.
std::span<const std::int32_t> tridiagonal_root(SolverWorkspace& workspace,
                                               const TridiagonalPlan& plan, double trace_exponent);

}  // namespace shampoo::kernels
