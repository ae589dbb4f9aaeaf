// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/solvers/solver.h"
#include "kernels/solvers/solver_workspace.h"

namespace shampoo::kernels {

/// Eigenvalues of a float32 decomposition carry an error of about machine epsilon times the largest
/// one; below this floor they are noise, whose negative powers would dominate the direction.
inline constexpr double automatic_floor = 1e-7;

/// How an eigendecomposition damps and repeats.
struct EigenRoot {
  Eigen options = {};
  std::optional<double> epsilon = std::nullopt;  ///< epsilon used instead of that of the jobs
  double trace_exponent = 0;
  Eigensolver eigensolver = Eigensolver::divide_and_conquer;
  double jitter = 0;  ///< multiple of trace(A) added to the diagonal before the decomposition
};

/// How a basis method damps a factor and its eigenvalues.
Eigen eigen_of(const BasisMethod& method);

/// The rule for eigenvalues that these options ask for, without columns.
Spectrum spectrum_of(const Eigen& eigen);

/// A, one matrix of the workspace's chunk <- scale factor + epsilon I, with epsilon only where it
/// is added before the decomposition; then A <- A + jitter trace(A) I. Waits for a jitter.
void load_damped(SolverWorkspace& workspace, int matrix, const EigenRoot& how);

/// Number of dense matrices that eigen_root() uses.
inline constexpr int eigen_root_matrices = 2;

/// Computes the roots of the workspace's chunk by A = Q L Q^T, X = Q L^-exponent Q^T, and stores
/// them. Returns one flag per row: 0 where the root was stored. Waits.
///
/// A pseudo-inverse drops small eigenvalues: by default those up to side times machine epsilon
/// times the largest one, the numerical rank of [Golub 2013, ch. 5.4], as
/// torch.linalg.pinv and numpy.linalg.matrix_rank do.
std::span<const std::int32_t> eigen_root(SolverWorkspace& workspace, const EigenRoot& how);

}  // namespace shampoo::kernels
