// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/threads/scratch.h"

namespace shampoo::kernels {

/// Rows of Q <- the rows of X, row-major n x n, made orthonormal one after the other: X^T = Q^T R.
/// Blocked Householder reflections in compact WY form [Golub 2013, ch. 5.2.3], panels by a kernel
/// of this library, products by BLAS; LAPACK's signs. R is not formed. X may be Q.
///
/// Backward stable whatever the condition of X: |Q Q^T - I| and the part of a row of X outside the
/// span of its rows of Q, relative to the row, are of the order of n machine epsilons. Rows are
/// scaled by powers of two, so that large and small ones neither overflow nor vanish. Where an
/// element of X is not finite, so is one of Q.
void orthonormalize_square(std::int64_t n, const float* x, float* q, Scratch& scratch);
void orthonormalize_square(std::int64_t n, const double* x, double* q, Scratch& scratch);

/// Bytes of scratch memory of a task that does so in either precision.
std::size_t householder_scratch(std::int64_t side);

}  // namespace shampoo::kernels
