// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include <cstdint>
#include <type_traits>

#include "kernels/rules/host_device.h"
#include "kernels/types.h"

/// Elements as they are stored, and conversions that round once, to the nearest, ties to even.
/// Without branches, so that compilers can vectorize them.
namespace shampoo::kernels {

struct Bfloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

template <typename To, typename From>
SHAMPOO_RULE To bits_to(From from) {
  return __builtin_bit_cast(To, from);
}
SHAMPOO_RULE std::uint32_t bits_of(float x) { return bits_to<std::uint32_t>(x); }
SHAMPOO_RULE float float_of(std::uint32_t bits) { return bits_to<float>(bits); }

SHAMPOO_RULE float to_float(Bfloat16 x) {
  return float_of(static_cast<std::uint32_t>(x.bits) << 16);
}
SHAMPOO_RULE float to_float(Float16 x) {
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

SHAMPOO_RULE Bfloat16 to_bfloat16(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}
SHAMPOO_RULE Float16 to_float16(float x) {
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
SHAMPOO_RULE float to_odd_float(double x) {
  const float near = static_cast<float>(x);
  const double back = static_cast<double>(near);
  const std::uint32_t bits = bits_of(near);
  const std::uint32_t toward_zero = ::fabs(back) > ::fabs(x) ? bits - 1u : bits;
  const bool inexact = back != x && x == x;
  return float_of(inexact ? toward_zero | 1u : bits);
}

/// An arithmetic element from a stored one.
template <typename Real, typename Stored>
SHAMPOO_RULE Real real(Stored x) {
  if constexpr (sizeof(Stored) == 2)
    return static_cast<Real>(to_float(x));
  else
    return static_cast<Real>(x);
}

/// A stored element from an arithmetic one, rounded once.
template <typename Stored, typename Real>
SHAMPOO_RULE Stored stored(Real x) {
  if constexpr (sizeof(Stored) > 2)
    return static_cast<Stored>(x);
  else if constexpr (sizeof(Real) == 8)
    return stored<Stored>(to_odd_float(x));
  else if constexpr (std::is_same_v<Stored, Bfloat16>)
    return to_bfloat16(x);
  else
    return to_float16(x);
}

/// body(null pointer to the element type)
template <typename Body>
SHAMPOO_RULE void with_type(Type type, Body&& body) {
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

}  // namespace shampoo::kernels
