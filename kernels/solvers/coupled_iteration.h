// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/solvers/rational.h"
#include "kernels/solvers/solver.h"
#include "kernels/solvers/solver_workspace.h"

namespace shampoo::kernels {

inline bool is_coupled(const Solver& solver) {
  return std::holds_alternative<CoupledNewton>(solver) ||
         std::holds_alternative<CoupledHigherOrder>(solver);
}

/// Number of dense matrices that the iterations use.
inline constexpr int coupled_matrices = SolverWorkspace::most_matrices;

/// Coupled inverse Newton iteration for X = A^(-1/p) [Iannazzo 2006; Guo 2006, (3.2); Higham
/// 2008, ch. 7], started as in [Anil 2020]:
///
///     X <- z^(1/p) I ; M <- z A, with z = (p + 1) / (2 |A|_F)
///     T <- ((p + 1) I - M) / p ; X <- X T ; M <- T^p M          until max |M - I| <= tolerance
///
/// for the rows of the workspace's chunk, which have one root p, q = 1. A matrix that has not
/// converged after max_iterations keeps what it has reached. Stores the roots; returns one flag per
/// row: 0 where the root was stored. Waits.
std::span<const std::int32_t> coupled_newton(SolverWorkspace& workspace, Rational root,
                                             const CoupledNewton& options, double trace_exponent);

/// The same for roots p / q, of any order of convergence [Lakic 1998; Shi 2023,
/// matrix_functions.py]: T is the binomial series of M^(-1/p) around I up to (I - M)^(order - 1),
/// which for order 2 is Newton's, the first step's. In the end X <- X^q. Fails where
/// max |A X^p - I| > 0.1.
std::span<const std::int32_t> coupled_higher_order(SolverWorkspace& workspace, Rational root,
                                                   const CoupledHigherOrder& options,
                                                   double trace_exponent);

}  // namespace shampoo::kernels
