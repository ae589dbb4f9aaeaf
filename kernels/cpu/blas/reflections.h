// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::kernels {

/// Householder reflections of a few rows at a time, compiled once for each level of the instruction
/// set.
///
/// reflect(rows, count, length, stride, taus): row j, for all j < count <= length in turn, <- the
/// vector v_j of the reflection I - tau_j v_j^T v_j that makes its elements behind j zero, with
/// v_jj = 1 and zeros before it; later rows are reflected. tau_j is 0 where those elements are
/// zeros or the row is nothing but rounding. Signs and scales are LAPACK's (larfg). The largest
/// elements of `rows` are about 1 at first, or zeros. `rows`: aligned to 64 bytes; `stride`, in
/// elements: a multiple of 64 bytes; elements from `length` to the next multiple of 64 bytes are
/// zeros.
struct Reflections {
  void (*in_float)(float* rows, std::int64_t count, std::int64_t length, std::int64_t stride,
                   float* taus);
  void (*in_double)(double* rows, std::int64_t count, std::int64_t length, std::int64_t stride,
                    double* taus);
};

Reflections base_reflections();
Reflections x86_v3_reflections();
Reflections x86_v4_reflections();

}  // namespace shampoo::kernels
