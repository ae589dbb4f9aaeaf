// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace shampoo::kernels {

/// Rounding of products of symmetric matrices. A backend may always be more accurate, and is
/// `accurate` in float64.
enum class Precision : std::uint8_t {
  /// As products in the matrices' own type: an element of A B carries an error of at most about
  /// side 2^-23 sum_k |a_ik b_kj|. Products of more than one term of 16 bits each may stand in.
  accurate,
  /// Operands are rounded to float16 (to nearest, with its subnormal numbers), sums are in float32.
  /// Callers keep elements of operands below 2^15.
  half
};

/// C <- product A B + first A + identity I; each is rounded to the matrices' type.
struct Weights {
  double product = 1;
  double first = 0;
  double identity = 0;
};

/// Turns a matrix A, with largest element 1/2 to 1, and S = A A into M, the matrix that an
/// iteration for roots starts from, and N, the polynomial of its first step. Numbers per matrix are
/// computed in double; their sums run over rows, then within a row, in a fixed order. t bounds the
/// largest eigenvalue: by a norm [Horn 2013, 5.6.9], and by that of A^2.
///
///     t     = (1 + 2^-10) min(max over i of sum_j |a_ij|, |S|_F^(1/2))
///     shift = max(epsilon / scale, t / kappa_max)
///     u     = the least power of two > t + shift
///     M     = A / u + (shift / u) I
///     N     = n0 I + n1 M + n2 M^2
///     scale <- scale u                                then scale M = the damped matrix
///     clamped <- t / kappa_max > epsilon / scale ? 1 : 0
///
/// with M^2 = (S + 2 shift A + shift^2 I) / u^2. No eigenvalue of M is above 1, and none below
/// 1 / (2 kappa_max + 2) if A has none below 0. Dividing by a power of two rounds nothing: what
/// makes small eigenvalues is kept. Where t + shift is 0 (a matrix of zeros without epsilon), M is
/// I, its scale stays and `clamped` is 1.
struct Damping {
  const double* epsilons = nullptr;    ///< [backend] per matrix
  double kappa_max = 0;                ///< > 1
  std::array<double, 3> polynomial{};  ///< n0, n1, n2
  double* scales = nullptr;            ///< [backend] in and out, per matrix
  double* clamped = nullptr;           ///< [backend] out, per matrix
};

}  // namespace shampoo::kernels
