// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>

#include "kernels/rules/host_device.h"

namespace shampoo::kernels {

/// How a backend keeps a symmetric matrix of float32 that products are made of. It may keep more
/// than a form asks for, and keeps all of float64 dense. Callers keep elements below 2^15.
enum class Form : std::uint8_t {
  dense,  ///< the numbers themselves
  /// Each as a sum of two of 16 bits, off by at most max(2^-22 |x|, 2^-36). An element of the
  /// product A B of such matrices carries an error of at most about side 2^-23 sum_k |a_ik b_kj|.
  /// What is split can also be read as half.
  split,
  /// Each rounded to float16 (to nearest, with its subnormal numbers); sums of products in float32.
  half
};

/// How a factor F is unpacked:
///
///     A    = scale max(scale trace(F), floor)^-trace_exponent F + shift I
///     size = the power of two for which the largest |a_ii| / size lies in [1/2, 1), but in
///            [2^-1021, 2^1023]; 1 where that is 0 or not finite
///     A   <- A / size, which rounds only what underflows
///
/// No element of a positive semidefinite matrix is larger than the largest of its diagonal.
struct Loading {
  const double* scales = nullptr;  ///< [backend] per matrix: 1 / bias correction
  const double* shifts = nullptr;  ///< [backend] per matrix; null: 0
  const double* floors = nullptr;  ///< [backend] per matrix; with a trace_exponent
  double trace_exponent = 0;       ///< 0: no power of the trace
  double* sizes = nullptr;         ///< [backend] out, per matrix; null: A is not divided
  Form form = Form::dense;         ///< of A

  /// size, of the largest |a_ii|
  SHAMPOO_BOTH static double size_of(double largest) {
    if (largest == 0 || !(largest - largest == 0)) return 1;
    const int exponent = ilogb(largest) + 1;
    return ldexp(1.0, exponent < -1021 ? -1021 : exponent > 1023 ? 1023 : exponent);
  }
};

/// Roots are multiplied by scales^exponent, a power that is computed in double and rounded once.
struct RootScaling {
  const double* scales = nullptr;  ///< [backend] per matrix, above 0; null: 1
  double exponent = 0;

  SHAMPOO_BOTH double factor(std::int64_t row) const {
    return scales == nullptr ? 1 : pow(scales[row], exponent);
  }
};

/// Maps the eigenvalues L of a matrix to those of its inverse root, L^-exponent.
struct Spectrum {
  enum class Rule : std::uint8_t {
    shift_to_epsilon,  ///< if min < epsilon: L <- (L - min) + epsilon
    shift_and_add,     ///< L <- (L - min(min, 0)) + epsilon
    cut                ///< L <= max(relative max(L, 0), absolute): the root's eigenvalue is 0
  };
  Rule rule = Rule::shift_to_epsilon;
  double relative_floor = 0;  ///< then L <- max(L, relative_floor max(L)); 0: none
  double cut_relative = 0;    ///< below 0: side times the type's epsilon
  double cut_absolute = 0;
  const double* epsilons = nullptr;   ///< [backend] per matrix
  const double* exponents = nullptr;  ///< [backend] per matrix: L <- L^-exponent
  /// [backend] out, per matrix: number of eigenvalues that a shift or floor raised by more than 4
  /// machine epsilons of themselves; what a rule adds to every matrix does not count. May be null.
  double* clamped = nullptr;
};

enum class Eigensolver : std::uint8_t { divide_and_conquer, jacobi };

/// A number that describes one matrix, for iterations that decide on the host.
enum class Measure : std::uint8_t {
  frobenius,        ///< sqrt of the sum of squares
  off_diagonal,     ///< the same without the diagonal
  largest_row_sum,  ///< max over rows of the sum of absolute values
  trace,
  distance_from_identity,  ///< max over elements of |A - I|
  /// Max over elements of |A|; infinite where an element of the diagonal is not positive, as all
  /// are of a positive definite matrix, whose largest element is one of them.
  definite_size
};

/// Matrices and kinds of calls of a solver, for the backend to reserve scratch memory.
struct SolverCalls {
  std::int64_t largest_side = 0;
  bool decompositions = true;                          ///< eigh()
  std::map<std::int64_t, std::int64_t> matrices = {};  ///< how many there are of each side
};

/// Flags of a root that was not computed, besides the codes of LAPACK and cuSOLVER.
inline constexpr std::int32_t non_finite_root = 1 << 30;
inline constexpr std::int32_t skipped_root = 1 << 29;

/// C <- product A B + first A + addend D + identity I; each is rounded to the matrices' type.
struct Weights {
  double product = 1;
  double first = 0;
  double addend = 0;
  double identity = 0;
};

/// Makes, of a matrix A with elements below 1 and S = A A, the matrix M that an iteration for roots
/// starts from and N, the polynomial of its first step. Numbers per matrix are computed in double;
/// the sum runs over rows, then within a row, in a fixed order. t bounds the largest eigenvalue, by
/// the root of a norm of A^2 [Horn 2013, 5.6.9].
///
///     t     = (1 + 2^-10) |S|_F^(1/2)
///     shift = max(epsilon / scale, t / kappa_max)
///     u     = the least power of two > t + shift
///     M     = A / u + (shift / u) I
///     N     = n0 I + n1 M + n2 M^2
///     scale <- scale u                                then scale M = the damped matrix
///     clamped <- t / kappa_max > epsilon / scale ? 1 : 0
///
/// with M^2 = (S + 2 shift A + shift^2 I) / u^2. No eigenvalue of M is above 1, and none below
/// 1 / (2 kappa_max + 2) if A has none below 0, but for the rounding of A and M to their form.
/// Dividing by a power of two rounds nothing: what makes small eigenvalues is kept. Where t is 0 (a
/// matrix of zeros), M is I and its scale epsilon; without epsilon its scale stays and `clamped` is
/// 1.
struct Damping {
  const double* epsilons = nullptr;    ///< [backend] per matrix
  double kappa_max = 0;                ///< > 1
  std::array<double, 3> polynomial{};  ///< n0, n1, n2
  double* scales = nullptr;            ///< [backend] in and out, per matrix
  double* clamped = nullptr;           ///< [backend] out, per matrix
};

/// weight / (z + pole); both are positive.
struct PartialFraction {
  double pole = 0, weight = 0;
};
inline constexpr int most_partial_fractions = 112;

/// Damps a matrix A with elements below 1, and says how its tridiagonal form T becomes a
/// root. Numbers per matrix are computed in double.
///
///     t     = max over i of sum_j |t_ij|         bounds the largest eigenvalue [Horn 2013, 6.1.1]
///     shift = max(epsilon / scale, t / kappa_max)
///     u     = t + shift
///     scale <- scale u                           then scale (T + shift I) / u is the damped matrix
///     clamped <- t / kappa_max > epsilon / scale ? 1 : 0
///
/// No eigenvalue of (T + shift I) / u is above 1, and none below 1 / (2 kappa_max + 2) if A has
/// none below -shift / 2.
struct TridiagonalRoot {
  std::span<const PartialFraction> fractions = {};  ///< at most most_partial_fractions
  double kappa_max = 0;                             ///< > 1
  const double* epsilons = nullptr;                 ///< per matrix
  double* scales = nullptr;                         ///< in and out, per matrix
  double* clamped = nullptr;                        ///< out, per matrix
};

}  // namespace shampoo::kernels
