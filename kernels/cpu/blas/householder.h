// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/threads/scratch.h"

namespace shampoo::kernels {

/// Orthogonal iteration [Golub 2013, ch. 8.2.4], row-major n x n: rows of Q <- the rows of X made
/// orthonormal one after the other, X^T = Q^T R; then, iterations - 1 times, the same with X = Q A.
/// A is symmetric, and not read in a single iteration; X may be Q.
///
/// Blocked Householder reflections in compact WY form [Golub 2013, ch. 5.2.3]; LAPACK's signs. R is
/// not formed.
///
/// Backward stable whatever the condition of X: |Q Q^T - I| and the part of a row of X outside the
/// span of its rows of Q, relative to the row, are of the order of n machine epsilons. Rows are
/// scaled by powers of two, so that large and small ones neither overflow nor vanish. Where an
/// element of X is not finite, so is one of Q.
void iterate_orthogonally(std::int64_t n, const float* x, const float* a, int iterations, float* q,
                          Scratch& scratch);
void iterate_orthogonally(std::int64_t n, const double* x, const double* a, int iterations,
                          double* q, Scratch& scratch);

/// Bytes of scratch memory of a task that does so in either precision.
std::size_t householder_scratch(std::int64_t side);

}  // namespace shampoo::kernels
