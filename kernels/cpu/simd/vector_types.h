// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/types.h"

/// Conversions for the vector kernels. Everything has internal linkage: each level must keep its
/// own compiled copy.
namespace shampoo::kernels {
namespace {

struct Bfloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline float to_float(float x) { return x; }
inline float to_float(Bfloat16 x) { return float_of(static_cast<std::uint32_t>(x.bits) << 16); }
inline float to_float(Float16 x) {
  constexpr std::uint32_t rebias = 112u << 23;
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(x.bits & 0x7fffu) << 13;
  const std::uint32_t normal = rest + rebias;
  const std::uint32_t special = rest + 2 * rebias;
  // 2^-14 (1 + f) - 2^-14, because a denormal float would count as zero
  const std::uint32_t small = bits_of(float_of(rest + rebias + (1u << 23)) - 0x1p-14f);
  const std::uint32_t finite = rest < (1u << 23) ? small : normal;
  return float_of((rest >= (31u << 23) ? special : finite) | sign);
}

/// Rounds to the nearest, ties to even.
inline Bfloat16 to_bfloat16(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}
inline Float16 to_float16(float x) {
  const std::uint32_t sign = (bits_of(x) >> 16) & 0x8000u;
  const std::uint32_t size = bits_of(x) & 0x7fffffffu;
  const std::uint32_t normal = (size - (112u << 23) + 0xfffu + ((size >> 13) & 1u)) >> 13;
  // Adding 0.5 rounds at 2^-24, the last place of a small float16.
  const std::uint32_t small = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
  const std::uint32_t special = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const std::uint32_t finite = size < (113u << 23) ? small : normal;
  return {static_cast<std::uint16_t>((size >= (143u << 23) ? special : finite) | sign)};
}

/// Rounds to odd, so that a second rounding to 16 bits gives what a single one would.
inline float to_odd_float(double x) {
  const float near = static_cast<float>(x);
  const double back = static_cast<double>(near);
  const std::uint32_t bits = bits_of(near);
  const std::uint32_t toward_zero = __builtin_fabs(back) > __builtin_fabs(x) ? bits - 1u : bits;
  const bool inexact = back != x && x == x;
  return float_of(inexact ? toward_zero | 1u : bits);
}

/// A stored element from an arithmetic one, rounded once.
template <typename To>
struct Convert;
template <>
struct Convert<float> {
  static float from(float x) { return x; }
  static float from(double x) { return static_cast<float>(x); }
};
template <>
struct Convert<double> {
  static double from(float x) { return static_cast<double>(x); }
  static double from(double x) { return x; }
};
template <>
struct Convert<Bfloat16> {
  static Bfloat16 from(float x) { return to_bfloat16(x); }
  static Bfloat16 from(double x) { return to_bfloat16(to_odd_float(x)); }
};
template <>
struct Convert<Float16> {
  static Float16 from(float x) { return to_float16(x); }
  static Float16 from(double x) { return to_float16(to_odd_float(x)); }
};

/// An arithmetic element from a stored one.
template <typename Real, typename Stored>
inline Real real(Stored x) {
  if constexpr (sizeof(Stored) == 2)
    return static_cast<Real>(to_float(x));
  else
    return static_cast<Real>(x);
}

/// Calls body with a null pointer to the element type.
template <typename Body>
inline void with_type(Type type, Body body) {
  switch (type) {
    case Type::float64:
      return body(static_cast<double*>(nullptr));
    case Type::float32:
      return body(static_cast<float*>(nullptr));
    case Type::bfloat16:
      return body(static_cast<Bfloat16*>(nullptr));
    case Type::float16:
      return body(static_cast<Float16*>(nullptr));
  }
}

}  // namespace
}  // namespace shampoo::kernels
