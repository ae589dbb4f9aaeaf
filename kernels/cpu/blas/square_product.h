// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo::kernels {

/// C <- A B, row-major n x n; C is no operand. On processors with AVX2 by kernels of this library
/// up to the longest side of block products; otherwise by BLAS. The choice depends on n alone, so
/// the bits of a product do not depend on the call that it is part of. `scratch`:
/// block_product_scratch(n) elements.
///
/// OpenBLAS's AVX-512 kernels for small products call malloc where no operand is transposed and
/// m n k <= 10^6. Decompositions still reach them, inside LAPACK.
void multiply_square(const float* a, const float* b, float* c, int n, float* scratch);
void multiply_square(const double* a, const double* b, double* c, int n, double* scratch);

}  // namespace shampoo::kernels
