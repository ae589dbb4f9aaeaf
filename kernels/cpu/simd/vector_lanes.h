// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

/// Vectors of this level of the instruction set. Internal linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <typename Real, int bytes = vector_bytes>
struct Vector {
  typedef Real type __attribute__((vector_size(bytes)));
  static constexpr std::int64_t lanes = bytes / sizeof(Real);
};

template <typename Real>
inline typename Vector<Real>::type load(const Real* from) {
  typename Vector<Real>::type x;
  __builtin_memcpy(&x, from, vector_bytes);
  return x;
}
template <typename Real>
inline void store(typename Vector<Real>::type x, Real* to) {
  __builtin_memcpy(to, &x, vector_bytes);
}

/// The first `count` lanes of a, the others of b
template <typename Real>
inline typename Vector<Real>::type first_lanes(std::int64_t count, typename Vector<Real>::type a,
                                               typename Vector<Real>::type b) {
  using Index = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;
  typename Vector<Index>::type index;
#pragma GCC unroll 16
  for (int lane = 0; lane < Vector<Real>::lanes; ++lane) index[lane] = lane;
  return index < static_cast<Index>(count) ? a : b;
}

}  // namespace
}  // namespace shampoo::kernels
