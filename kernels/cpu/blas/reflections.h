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
};

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
