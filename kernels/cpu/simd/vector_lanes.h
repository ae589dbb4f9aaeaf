// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__FMA__)
#include <immintrin.h>
#endif

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

#if defined(__FMA__)
/// x y + z, rounded once. Whether compilers fuse operators differs from one to the next.
inline float fused(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fused(double x, double y, double z) { return __builtin_fma(x, y, z); }
#if defined(__AVX512F__)
inline Vector<float>::type fused(float x, Vector<float>::type y, Vector<float>::type z) {
  return _mm512_fmadd_ps(_mm512_set1_ps(x), y, z);
}
inline Vector<double>::type fused(double x, Vector<double>::type y, Vector<double>::type z) {
  return _mm512_fmadd_pd(_mm512_set1_pd(x), y, z);
}
#else
inline Vector<float>::type fused(float x, Vector<float>::type y, Vector<float>::type z) {
  return _mm256_fmadd_ps(_mm256_set1_ps(x), y, z);
}
inline Vector<double>::type fused(double x, Vector<double>::type y, Vector<double>::type z) {
  return _mm256_fmadd_pd(_mm256_set1_pd(x), y, z);
}
#endif
#endif

/// body.operator()<vectors>() for `vectors` in [1, most]
template <int most, typename Body>
inline void with_vectors(int vectors, const Body& body) {
  if constexpr (most > 1)
    if (vectors < most) return with_vectors<most - 1>(vectors, body);
  body.template operator()<most>();
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
