// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/solvers/solver_arguments.h"
#include "kernels/views.h"

namespace shampoo::kernels {

/// Kernels that work on batches of square matrices. `active` holds one flag per matrix, null for
/// all; others are left untouched.
class MatrixSolver {
 public:
  virtual ~MatrixSolver() = default;

  /// A <- factor, symmetric, scaled and shifted; see Loading. `factors` and `a` group by group of
  /// the same side and count.
  virtual void unpack_factors(std::span<const FactorBatch> factors, const Loading& loading,
                              std::span<const SquareMatrixBatch> a) = 0;

  /// Symmetric eigendecomposition A = Q L Q^T. A <- Q^T: row j of memory is the eigenvector of
  /// value j; values ascending. On the host LAPACK's ssyevd and dsyevd, by divide and conquer
  /// [Cuppen 1981; Gu 1995], or cyclic Jacobi rotations [Demmel 1992]; on CUDA cuSOLVER's Xsyevd in
  /// float64, whatever `solver` is, one matrix after the other, whose vectors are made orthogonal.
  /// `failed` gets, per matrix, 0, the library's code, or non_finite_root for an A that is not
  /// finite or vectors that could not be made orthogonal; A is unspecified then.
  virtual void eigh(std::span<const SquareMatrixBatch> a, Eigensolver solver,
                    std::int32_t* failed) = 0;

  /// values <- eigenvalues of the root; see Spectrum.
  virtual void root_spectrum(std::span<const SquareMatrixBatch> a, const Spectrum& spectrum) = 0;

  /// X <- Q diag(values) Q^T, symmetric up to rounding, for the eigenvectors and values (>= 0) in
  /// `q`, whose matrices are overwritten.
  virtual void reconstruct(std::span<const SquareMatrixBatch> q,
                           std::span<const SquareMatrixBatch> x) = 0;

  /// X <- Q f((T + shift I) / u) Q^T with A = Q T Q^T, T tridiagonal [Golub 2013, ch. 8.3.1], and
  /// f(Z) the sum of weight (Z + pole I)^-1 over the fractions; see TridiagonalRoot. A is
  /// overwritten. `failed` gets, per matrix, 0, non_finite_root for an A that is not finite, or 1
  /// where T + shift / 2 I is not positive definite. Throws std::logic_error unless
  /// has_tridiagonal_roots().
  virtual void tridiagonal_root(std::span<const SquareMatrixBatch> a, const TridiagonalRoot& how,
                                std::span<const SquareMatrixBatch> x, std::int32_t* failed);

  /// Roots <- (X + X^T) / 2, scaled, where that is finite and the flag in `failed` is 0; where it
  /// is not finite the flag becomes non_finite_root.
  virtual void pack_roots(std::span<const SquareMatrixBatch> x, const RootScaling& scaling,
                          std::span<const FactorBatch> roots, std::int32_t* failed) = 0;

  /// C <- A B. C is no operand.
  virtual void multiply(std::span<const SquareMatrixBatch> a, std::span<const SquareMatrixBatch> b,
                        std::span<const SquareMatrixBatch> c, const std::uint8_t* active) = 0;

  /// Y <- scale X + shift I, with one scale and shift per matrix; X and Y may be the same.
  virtual void combine(const double* scales, std::span<const SquareMatrixBatch> x,
                       const double* shifts, std::span<const SquareMatrixBatch> y,
                       const std::uint8_t* active) = 0;

  /// Writes one number per matrix, indexed by row.
  virtual void measure(std::span<const SquareMatrixBatch> a, Measure what, double* numbers,
                       const std::uint8_t* active) = 0;

  // Solvers without host steps: every number stays in the backend's memory. Matrices are dense and
  // symmetric bit for bit, and stay so, unless a call says in which other form they are.

  /// M and N in the form of A; see Damping. `squared`, dense, is A A. All four are different.
  virtual void damp(std::span<const SquareMatrixBatch> a,
                    std::span<const SquareMatrixBatch> squared, const Damping& damping,
                    std::span<const SquareMatrixBatch> m, std::span<const SquareMatrixBatch> n,
                    Form form) = 0;

  /// C <- A, dense, in a form. C is no operand.
  virtual void convert(std::span<const SquareMatrixBatch> a, std::span<const SquareMatrixBatch> c,
                       Form form) = 0;

  /// C <- weights.product A B + weights.first A + weights.addend D + weights.identity I for A and B
  /// that commute: both are polynomials of one matrix, or the same. A, B and D have the form
  /// `operands`, split or half; C gets `form`. A and D are not added, whatever they hold, where
  /// their weight is 0. D may be A or B, and C is none of them. Of the elements of A B at (i, j)
  /// and (j, i) one stands for both, or their mean.
  virtual void multiply_symmetric(std::span<const SquareMatrixBatch> a,
                                  std::span<const SquareMatrixBatch> b, Form operands,
                                  const Weights& weights, std::span<const SquareMatrixBatch> d,
                                  std::span<const SquareMatrixBatch> c, Form form) = 0;

  /// failed <- 0 where max over elements of |M - I| <= limit, otherwise (NaN too) non_finite_root;
  /// skipped_root for all if *proceed ([backend]; null: 1) is 0, and for those that are not active.
  /// One flag per matrix.
  virtual void check_identity(std::span<const SquareMatrixBatch> m, Form form, double limit,
                              const std::int32_t* proceed, const std::uint8_t* active,
                              std::int32_t* failed) = 0;
};

}  // namespace shampoo::kernels
