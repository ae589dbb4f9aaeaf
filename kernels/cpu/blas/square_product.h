// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo::kernels {

/// C <- A B, row-major n x n; C is no operand. Up to n = 100, on processors with AVX2, by a kernel
/// of this library, which allocates nothing; otherwise by BLAS. The choice depends on n alone, so
/// the bits of a product do not depend on the call that it is part of.
///
/// OpenBLAS's AVX-512 kernels for small products call malloc where no operand is transposed and
/// m n k <= 10^6. Decompositions still reach them, inside LAPACK.
void multiply_square(const float* a, const float* b, float* c, int n);
void multiply_square(const double* a, const double* b, double* c, int n);

}  // namespace shampoo::kernels
