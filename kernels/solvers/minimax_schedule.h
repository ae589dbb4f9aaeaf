// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

namespace shampoo::kernels {

/// One step of the iteration N = a I + b M + c M^2 ; X <- X N ; M <- N^p M.
struct MinimaxStep {
  std::array<double, 3> coefficients{};  ///< a, b, c
  double least = 1, greatest = 1;        ///< range of the eigenvalues of M before the step
  /// Range of the eigenvalues of M after the step, in exact arithmetic.
  double least_after = 1, greatest_after = 1;
  double error = 0;      ///< largest relative error of an eigenvalue of X after the step
  double magnitude = 1;  ///< largest |N|, also over eigenvalues of M in [0, least]

  /// Largest condition number of M before the step.
  double kappa() const { return greatest / least; }
};

/// A step is fitted to a slightly wider interval than it needs, so that rounding cannot carry an
/// eigenvalue to where N is worse than no step: factors of both ends, in m^(1/p).
struct Widening {
  double least = 0.98;
  double greatest = 1.01;
};

/// Steps after which X is M_0^(-1/p), up to a relative error of `tolerance` for every eigenvalue of
/// M_0 in [1 / kappa, 1]. p >= 1, kappa > 1, tolerance >= 1e-15.
///
/// In x = m^(1/p), a step maps x to f(x) = x (a + b x^p + c x^2p). Each step minimises max |f - 1|
/// over the interval left by the one before: the greedy composition of [Amsel 2025,
/// section 4], which treats the polar factor, carried over to inverse p-th roots. The minimiser
/// equioscillates and is found by Remez exchange [Trefethen 2019, ch. 10; Amsel 2025, appendix D].
/// An eigenvalue in [0, 1 / kappa) gets less than its root, and does no harm.
std::vector<MinimaxStep> minimax_schedule(int p, double kappa, double tolerance,
                                          const Widening& widening = {});

}  // namespace shampoo::kernels
