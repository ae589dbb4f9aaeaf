// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <variant>

namespace shampoo {

/// The solver that fits backend and arithmetic: an eigendecomposition with a relative floor.
struct Automatic {
  bool operator==(const Automatic&) const = default;
};

/// Eigenvalues at most max(relative max(L, 0), absolute) are dropped: the root is 0 there.
/// Needs the rate epsilon to be 0.
struct PseudoInverse {
  /// In [0, 1]; empty: side of the matrix times the machine epsilon.
  std::optional<double> relative_tolerance = 0.0;
  double absolute_tolerance = 0;  ///< >= 0
  bool operator==(const PseudoInverse&) const = default;
};

/// Q L^(-1/r) Q^T by a symmetric eigendecomposition. Should it fail, it is repeated with a jittered
/// diagonal, in float64, and by Jacobi rotations, before the old root is kept.
struct Eigen {
  /// Whether epsilon is added before the decomposition (then a matrix that is not positive definite
  /// is shifted so that its least eigenvalue is epsilon) or to the eigenvalues afterwards.
  bool perturb_before = true;
  std::optional<PseudoInverse> pseudo_inverse = std::nullopt;
  double relative_floor = 0;  ///< eigenvalues are raised to this times the largest; in [0, 1)
  bool operator==(const Eigen&) const = default;
};

/// Coupled Newton iteration for integer roots. Where an iteration diverges, an eigendecomposition
/// takes its place.
struct CoupledNewton {
  int max_iterations = 100;  ///< >= 0
  double tolerance = 1e-6;   ///< on max |M - I|; >= 0
  bool operator==(const CoupledNewton&) const = default;
};

/// Coupled iteration of higher order for rational roots. Damps with
/// max(relative_epsilon * largest row sum, absolute_epsilon) in place of the rate epsilon.
struct CoupledHigherOrder {
  double relative_epsilon = 0;      ///< >= 0
  double absolute_epsilon = 1e-12;  ///< >= 0; one of the two must be positive
  int max_iterations = 100;         ///< >= 0; the first, a step of Newton's, is always taken
  double tolerance = 1e-8;          ///< >= 0
  int order = 3;                    ///< >= 2
  bool operator==(const CoupledHigherOrder&) const = default;
};

using Solver = std::variant<Automatic, Eigen, CoupledNewton, CoupledHigherOrder>;

}  // namespace shampoo
