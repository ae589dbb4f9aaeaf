// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

namespace shampoo::kernels {

/// One step of the iteration X <- X N ; M <- N^p M, where N is a polynomial of M:
///
///     N = Q = a I + b M + c M^2                             of degree 2
///     N = Q^2 + d Q + e M + f I, Q = b M + c M^2 (a = 0)    of degree 4
///
/// Every polynomial of degree 4 that ends in c^2 M^4 can be written so, with two products
/// [Paterson 1973]. Q has no identity, whose square would be rounded in every sum of Q^2.
struct MinimaxStep {
  int degree = 2;
  std::array<double, 3> coefficients{};  ///< a, b, c
  std::array<double, 3> quartic{};       ///< d, e, f
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
/// M_0 in [1 / kappa, 1]. 1 <= p <= 64, kappa > 1, tolerance >= 1e-15.
///
/// In x = m^(1/p), a step maps x to f(x) = x N(x^p). Each step minimises max |f - 1| over the
/// interval left by the one before: the greedy composition of [Amsel 2025, section 4], which treats
/// the polar factor, carried over to inverse p-th roots. The minimiser equioscillates and is found
/// by Remez exchange [Trefethen 2019, ch. 10; Amsel 2025, appendix D]. An eigenvalue in
/// [0, 1 / kappa) gets less than its root, and does no harm.
///
/// `degree` is that of the first steps, 2 or 4. The last ones have degree 2, and so a product less,
/// where that takes no more steps than degree 4 does.
std::vector<MinimaxStep> minimax_schedule(int p, double kappa, double tolerance, int degree,
                                          const Widening& widening = {});

}  // namespace shampoo::kernels
