// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::kernels {

/// Householder reflections of a few rows at a time, compiled once for each level of the instruction
/// set. Rows have n elements, then zeros up to the next multiple of 64 bytes, and are a stride
/// apart, which in bytes is a multiple of 64, too; the first is aligned to 64 bytes.
template <typename Real>
struct ReflectionsIn {
  /// Rows of V <- n rows of X, back to back, scaled by powers of two to largest elements of about
  /// 1, which changes nothing but R.
  void (*load)(const Real* x, std::int64_t n, Real* v, std::int64_t stride);
  /// Row j, for all j < count <= n in turn, <- the vector v_j of the reflection I - tau_j v_j^T v_j
  /// that makes its elements behind j zero, with v_jj = 1 and zeros before it; later rows are
  /// reflected. tau_j is 0 where those elements are zeros or the row is nothing but rounding. Signs
  /// and scales are LAPACK's (larfg).
  void (*reflect)(Real* rows, std::int64_t count, std::int64_t n, std::int64_t stride, Real* taus);
  /// T^T of I - V^T T V, the product of b reflections; T is b x b and upper triangular. `gram`:
  /// V V^T.
  void (*form_t)(std::int64_t b, const Real* gram, const Real* taus, Real* tt);
  /// Diagonal d and off-diagonal e, n - 1 elements, of T = Q^T A Q, for a symmetric n x n A with
  /// both triangles and a largest element of about 1; Q = H_0 ... H_(n-2), H_j = I - tau_j v_j^T
  /// v_j with v_j zero up to element j and 1 in the next one [Golub 2013, alg. 8.3.1]. Row j < n -
  /// 1 of A <- v_j. `scratch`: two rows.
  void (*tridiagonalize)(Real* a, std::int64_t n, std::int64_t stride, double* d, double* e,
                         Real* taus, Real* scratch);
  /// to <- the transpose of rows x columns elements; strides are those between rows, and any.
  void (*transpose)(const Real* from, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    Real* to, std::int64_t to_stride);
};

template <typename Real>
constexpr std::int64_t reflection_stride(std::int64_t n) {
  constexpr std::int64_t line = 64 / sizeof(Real);
  return (n + line - 1) / line * line + line;
}

struct Reflections {
  ReflectionsIn<float> in_float;
  ReflectionsIn<double> in_double;
};

/// Those of this processor.
template <typename Real>
const ReflectionsIn<Real>& best_reflections();

Reflections base_reflections();
Reflections x86_v3_reflections();
Reflections x86_v4_reflections();

}  // namespace shampoo::kernels
