// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/views.h"

namespace shampoo::kernels {

/// Directions that are scaled in the eigenbases of blocks.
struct EigenbasisPass {
  const void* masters = nullptr;  ///< [backend] see GradientPass
  /// [backend] E, one element per element in flat slots; null: the scales of the stacks are used.
  void* second_moment = nullptr;
  /// F is computed in the eigenbases, from G and M. Only with second moments, and where every
  /// present block is preconditioned.
  bool filters = false;
  void* first_moment = nullptr;  ///< [backend] M in the eigenbases; may be null where none filters
  void* direction = nullptr;     ///< [backend] F in, unless `filters`; P out
  double* direction_norms = nullptr;  ///< [backend] out: squared norms of P; may be null
};

/// Kernels that work in the eigenbases of factors. Q_k is the basis of dimension k, one eigenvector
/// per row; x_k is the product along it.
class Eigenbasis {
 public:
  virtual ~Eigenbasis() = default;

  /// With second moments [George 2018; Vyas 2024], for present blocks and then for preconditioned
  /// ones:
  ///
  ///     E <- keep E + add (G x_k Q_k)^2
  ///     P <- ((F x_k Q_k) / ((E scale)^exponent + epsilon)) x_k Q_k^T
  ///
  /// where keep, add, scale and epsilon are Coefficients::preconditioner. With `filters`, F x_k Q_k
  /// is FilterRule's of M and G x_k Q_k, so that one rotation serves both moments. With scales s_k
  /// instead:
  ///
  ///     P <- (F x_k diag(s_k) Q_k) x_k Q_k^T
  ///
  /// Then the squared norms of P. `present` lists the blocks whose mode is not `absent`.
  virtual void precondition_in_eigenbasis(const PassContext& context, std::span<const Stack> stacks,
                                          std::span<const Selection> present,
                                          const EigenbasisPass& pass) = 0;

  /// Elements <- elements x_k Q_k, or x_k Q_k^T if `transposed`, in place, for preconditioned
  /// blocks. `present` as above.
  virtual void rotate(const PassContext& context, std::span<const Stack> stacks,
                      std::span<const Selection> present, bool transposed, void* elements) = 0;

  /// Q <- stored bases; `bases` and `q` batch by batch of the same side and count.
  virtual void load_bases(std::span<const BasisBatch> bases,
                          std::span<const SquareMatrixBatch> q) = 0;

  /// Stored bases and eigenvalues <- Q and its values, where both are finite and the flag in
  /// `failed` is 0; where they are not finite the flag becomes non_finite_root.
  virtual void store_bases(std::span<const SquareMatrixBatch> q, std::span<const BasisBatch> bases,
                           std::int32_t* failed) = 0;

  /// Orthogonal iteration [Golub 2013, ch. 8.2.4] with a symmetric A: rows of Q <- the rows of X,
  /// made orthonormal one after the other by Householder reflections [ch. 5.2], X^T = Q^T R with
  /// LAPACK's signs; then, iterations - 1 times, the same with X = Q A. Iterations >= 1; A is
  /// not read in a single one. X, which is overwritten, is neither A nor Q. `active`
  /// as in MatrixSolver.
  virtual void iterate_orthogonally(std::span<const SquareMatrixBatch> x,
                                    std::span<const SquareMatrixBatch> a,
                                    std::span<const SquareMatrixBatch> q, int iterations,
                                    const std::uint8_t* active) = 0;

  /// values_j of S <- q_j A q_j^T, the Rayleigh quotients of a symmetric A, ascending and stable;
  /// rows of S <- those of Q in that order. X is scratch memory.
  virtual void sort_basis(std::span<const SquareMatrixBatch> a,
                          std::span<const SquareMatrixBatch> x,
                          std::span<const SquareMatrixBatch> q,
                          std::span<const SquareMatrixBatch> s) = 0;

  /// C <- A B^T. C is no operand.
  virtual void multiply_transposed(std::span<const SquareMatrixBatch> a,
                                   std::span<const SquareMatrixBatch> b,
                                   std::span<const SquareMatrixBatch> c) = 0;
};

}  // namespace shampoo::kernels
