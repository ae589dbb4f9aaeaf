// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo::kernels {

/// C <- A B, row-major n x n; C is no operand. Allocates nothing, and chooses by n alone, so that a
/// matrix gives the same bits in any call: up to n = 100 a kernel of this library on processors
/// with AVX2, where OpenBLAS's kernels for small products would call malloc on some; BLAS
/// otherwise.
void multiply_square(const float* a, const float* b, float* c, int n);
void multiply_square(const double* a, const double* b, double* c, int n);

}  // namespace shampoo::kernels
