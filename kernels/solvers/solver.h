// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

namespace shampoo {

/// Chooses by backend and arithmetic: Minimax where products are much faster than decompositions
/// (CUDA, in float32), Tridiagonal on the CPU, if they support the recipe's exponents; otherwise
/// Eigen with a relative floor.
struct Automatic {
  static constexpr std::string_view name = "automatic";
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&&, Self&) {}
  bool operator==(const Automatic&) const = default;
};

/// Moore-Penrose inverse: eigenvalues L <= max(relative max(L, 0), absolute) are dropped, that is,
/// the root is 0 there. Requires the rate epsilon to be 0.
struct PseudoInverse {
  static constexpr std::string_view name = "pseudo_inverse";
  /// In [0, 1]; empty: side of the matrix times the machine epsilon.
  std::optional<double> relative_tolerance = 0.0;
  double absolute_tolerance = 0;  ///< >= 0
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("relative_tolerance", self.relative_tolerance);
    visit("absolute_tolerance", self.absolute_tolerance);
  }
  bool operator==(const PseudoInverse&) const = default;
};

/// Q L^(-1/r) Q^T by a symmetric eigendecomposition. On failure it is repeated with a jittered
/// diagonal, in float64, and by Jacobi rotations, before the old root is kept; on CUDA all of them
/// are in float64, by one method. Waits for the backend.
struct Eigen {
  static constexpr std::string_view name = "eigen";
  /// True: epsilon is added before the decomposition, and a matrix that is not positive definite is
  /// shifted so that its least eigenvalue is epsilon. False: to the eigenvalues afterwards.
  bool perturb_before = true;
  std::optional<PseudoInverse> pseudo_inverse = std::nullopt;
  double relative_floor = 0;  ///< eigenvalues are clamped to this times the largest; in [0, 1)
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("perturb_before", self.perturb_before);
    visit("relative_floor", self.relative_floor);
    visit("pseudo_inverse", self.pseudo_inverse);
  }
  bool operator==(const Eigen&) const = default;
};

/// Coupled inverse Newton iteration for integer roots [Iannazzo 2006; Guo 2006]. Where it
/// diverges, an eigendecomposition is used instead. Waits for the backend.
struct CoupledNewton {
  static constexpr std::string_view name = "coupled_newton";
  int max_iterations = 100;  ///< >= 0
  double tolerance = 1e-6;   ///< tolerance on max |M - I|; >= 0
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("max_iterations", self.max_iterations);
    visit("tolerance", self.tolerance);
  }
  bool operator==(const CoupledNewton&) const = default;
};

/// Coupled iteration of higher order for rational roots [Lakic 1998]. Damps with
/// max(relative_epsilon * largest row sum, absolute_epsilon) instead of the rate epsilon. Where it
/// diverges, an eigendecomposition is used instead, with the rate where absolute_epsilon is 0.
/// Waits for the backend.
struct CoupledHigherOrder {
  static constexpr std::string_view name = "coupled_higher_order";
  double relative_epsilon = 0;      ///< >= 0
  double absolute_epsilon = 1e-12;  ///< >= 0; one of the two must be positive
  int max_iterations = 100;         ///< >= 0; the first, a step of Newton's, is always taken
  double tolerance = 1e-8;          ///< >= 0
  int order = 3;                    ///< >= 2
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("relative_epsilon", self.relative_epsilon);
    visit("absolute_epsilon", self.absolute_epsilon);
    visit("max_iterations", self.max_iterations);
    visit("tolerance", self.tolerance);
    visit("order", self.order);
  }
  bool operator==(const CoupledHigherOrder&) const = default;
};

/// Rounding of products of matrices in float32; float64 is always accurate.
enum class MinimaxPrecision : std::uint8_t {
  /// Products of matrices whose condition number has fallen to 300 have operands in float16, where
  /// the backend is faster at it, and those of X in all steps if its own stays below 64. The root's
  /// relative error (Frobenius) at kappa_max 1e6 is at most 3e-3 for the exponent 1/4 and 5e-3 for
  /// 1/2, in addition to that of `accurate`.
  mixed,
  /// The error of float32: its rounding, 6e-8, times kappa_max times the exponent, at most, on CUDA
  /// sqrt(2) times that; one to three digits less where small eigenvalues are few.
  accurate
};

/// A fixed number of products of matrices with minimax polynomials [Amsel 2025], for exponents
/// q / p <= 1 with q <= 4 and p <= 64. Decides nothing on the host, never waits and is not
/// repeated: a root that cannot be computed stays as it was. Damps with max(epsilon, largest /
/// kappa_max), where `largest` is the fourth root of the sum of the eigenvalues' fourth powers,
/// between the largest of them and n^(1/4) times that, and counts the factors for which the second
/// was the larger.
struct Minimax {
  static constexpr std::string_view name = "minimax";
  /// In [10, 1e7] in float32, which takes 2^20 for more: its rounding would make definite matrices
  /// indefinite. In [10, 1e12] in float64. Unset: 1e7 in float64; in float32 2^20, and 2^15 for
  /// exponents above 1/4, where a root's error, which is relative to its largest eigenvalue, would
  /// hide the directions of gradients that the factor sums.
  std::optional<double> kappa_max = std::nullopt;
  MinimaxPrecision precision = MinimaxPrecision::mixed;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("kappa_max", self.kappa_max);
    visit("precision", self.precision);
  }
  bool operator==(const Minimax&) const = default;
};

/// Q f(T) Q^T with A = Q T Q^T, T tridiagonal, and f a sum of partial fractions, for exponents
/// below 1; on the CPU. A third of the time of an eigendecomposition, or less. Damps with
/// max(epsilon, t / kappa_max), where t is the largest row sum of |T|, between the largest
/// eigenvalue and three times that, and counts the factors for which the second was the larger.
/// Where the damped matrix is not definite, an eigendecomposition is used instead.
struct Tridiagonal {
  static constexpr std::string_view name = "tridiagonal";
  /// In [10, 1e7] in float32, which takes 2^20 for more; in [10, 1e12] in float64.
  double kappa_max = 1e7;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("kappa_max", self.kappa_max);
  }
  bool operator==(const Tridiagonal&) const = default;
};

/// Eigenbases by symmetric eigendecompositions, repeated as Eigen's where one fails.
struct Eigh {
  static constexpr std::string_view name = "eigh";
  bool perturb_before = true;                                  ///< as Eigen
  std::optional<PseudoInverse> pseudo_inverse = std::nullopt;  ///< as Eigen
  double relative_floor = 0;                                   ///< as Eigen
  /// A basis Q is kept, and not decomposed anew, where the elements of Q A Q^T off the diagonal
  /// have a norm of at most this times that of all; in [0, 1]; 0: it never is.
  double tolerance = 0;
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("perturb_before", self.perturb_before);
    visit("pseudo_inverse", self.pseudo_inverse);
    visit("relative_floor", self.relative_floor);
    visit("tolerance", self.tolerance);
  }
  bool operator==(const Eigh&) const = default;
};

/// Eigenbases by orthogonal iteration from the old ones, Q R = A Q [Golub 2013, ch. 8.2], as SOAP
/// has them [Vyas 2024]. epsilon is added as Eigen does with perturb_before.
struct Qr {
  static constexpr std::string_view name = "qr";
  int max_iterations = 1;  ///< iterations of a refresh, >= 0
  double tolerance = 0;    ///< as Eigh; an iteration is not begun where the basis is that good
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("max_iterations", self.max_iterations);
    visit("tolerance", self.tolerance);
  }
  bool operator==(const Qr&) const = default;
};

using BasisMethod = std::variant<Eigh, Qr>;

using Solver =
    std::variant<Automatic, Eigen, CoupledNewton, CoupledHigherOrder, Minimax, Tridiagonal>;

/// Newton-Schulz iteration with fixed coefficients [Jordan 2024]: X <- F / max(|F|_F, 1e-8), then
/// so often X <- a X + b (X X^T) X + c (X X^T)^2 X. Singular values of the result lie around 1:
/// with the defaults in [0.68, 1.21] for those of F of at least 2e-3 |F|_F. Products only: never
/// waits. With coefficients that raise singular values above 181, CUDA gives NaN in float32.
struct NewtonSchulz {
  static constexpr std::string_view name = "newton_schulz";
  int iterations = 5;                                              ///< in [1, 100]
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};  ///< a, b, c; finite
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("iterations", self.iterations);
    visit("coefficients", self.coefficients);
  }
  bool operator==(const NewtonSchulz&) const = default;
};

/// The same iteration with the minimax coefficients of each step [Amsel 2025, section 4]: as many
/// steps as it takes, by the block's shape alone, for every singular value of the result to lie
/// in [1 - tolerance, 1 + tolerance] in exact arithmetic, where that of F is at least 1 / kappa_max
/// of the largest. Smaller ones give one in [0, 1 + tolerance], 0 gives 0. Rounding adds at most
/// about kappa_max shorter_side machine epsilons. Products only: never waits.
struct PolarExpress {
  static constexpr std::string_view name = "polar_express";
  double kappa_max = 1e3;   ///< in [1, 1e4] in float32, in [1, 1e7] in float64
  double tolerance = 1e-2;  ///< in [1e-6, 1)
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("kappa_max", self.kappa_max);
    visit("tolerance", self.tolerance);
  }
  bool operator==(const PolarExpress&) const = default;
};

/// Polar factor U V^T of F = U S V^T [Carlson 2015], over the singular values above (rows +
/// columns) machine epsilons of the largest: a matrix of rank r gives one with r singular values
/// of 1, zeros give zeros, and so does a decomposition that fails. LAPACK's gesdd on the host;
/// on CUDA an eigendecomposition of [0 F; F^T 0], for which a step waits for the backend.
struct Svd {
  static constexpr std::string_view name = "svd";
  bool scale_by_nuclear_norm = false;  ///< multiplies by the sum of F's singular values
  template <typename Visitor, typename Self>
  static void for_each_field(Visitor&& visit, Self& self) {
    visit("scale_by_nuclear_norm", self.scale_by_nuclear_norm);
  }
  bool operator==(const Svd&) const = default;
};

/// How a matrix is orthogonalised.
using Orthogonalizer = std::variant<NewtonSchulz, PolarExpress, Svd>;

}  // namespace shampoo
