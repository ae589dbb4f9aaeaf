// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/launch/thread_block.h"
#include "kernels/types.h"

/// Elements as they are stored, and conversions that round once, to the nearest, ties to even.
namespace shampoo::kernels::cuda {

struct Bfloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

template <typename To, typename From>
SHAMPOO_BOTH inline To bits_to(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

SHAMPOO_BOTH inline float to_float(Bfloat16 x) {
  return bits_to<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
SHAMPOO_BOTH inline float to_float(Float16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t size = x.bits & 0x7fffu;
  if (size >= 0x7c00u) return bits_to<float>(sign | 0x7f800000u | (size & 0x3ffu) << 13);
  // size 2^-24 for small numbers, otherwise the exponent's bias is moved
  if (size < 0x400u) {
    const float small = static_cast<float>(size) * 0x1p-24f;
    return sign != 0 ? -small : small;
  }
  return bits_to<float>(sign | ((size << 13) + (112u << 23)));
}

/// An arithmetic element from a stored one.
template <typename Real, typename Stored>
SHAMPOO_BOTH inline Real real(Stored x) {
  if constexpr (sizeof(Stored) == 2)
    return static_cast<Real>(to_float(x));
  else
    return static_cast<Real>(x);
}

SHAMPOO_BOTH inline Bfloat16 to_bfloat16(float x) {
  const std::uint32_t bits = bits_to<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}
SHAMPOO_BOTH inline Float16 to_float16(float x) {
  const std::uint32_t bits = bits_to<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t size = bits & 0x7fffffffu;
  std::uint32_t rounded = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
  // Adding 0.5 rounds at 2^-24, the last place of a small float16.
  if (size < (113u << 23))
    rounded = bits_to<std::uint32_t>(bits_to<float>(size) + 0.5f) - bits_to<std::uint32_t>(0.5f);
  else if (size < (143u << 23))
    rounded = (size - (112u << 23) + 0xfffu + ((size >> 13) & 1u)) >> 13;
  return {static_cast<std::uint16_t>(rounded | sign)};
}

/// Rounds to odd, so that a second rounding to 16 bits gives what a single one would.
SHAMPOO_BOTH inline float to_odd_float(double x) {
  const float near = static_cast<float>(x);
  const double back = static_cast<double>(near);
  const std::uint32_t bits = bits_to<std::uint32_t>(near);
  if (back == x || x != x) return near;
  const bool beyond = (back < 0 ? -back : back) > (x < 0 ? -x : x);
  return bits_to<float>((beyond ? bits - 1u : bits) | 1u);
}

/// A stored element from an arithmetic one, rounded once.
template <typename Stored, typename Real>
SHAMPOO_BOTH inline Stored stored(Real x) {
  static_assert(std::is_floating_point_v<Real>);
  if constexpr (sizeof(Stored) > 2) {
    return static_cast<Stored>(x);
  } else {
    float near = 0;
    if constexpr (sizeof(Real) == 8)
      near = to_odd_float(x);
    else
      near = x;
    if constexpr (std::is_same_v<Stored, Bfloat16>)
      return to_bfloat16(near);
    else
      return to_float16(near);
  }
}

/// body(null pointer to the element type)
template <typename Body>
SHAMPOO_BOTH inline void with_type(Type type, Body&& body) {
  switch (type) {
    case Type::float64:
      return body(static_cast<const double*>(nullptr));
    case Type::float32:
      return body(static_cast<const float*>(nullptr));
    case Type::bfloat16:
      return body(static_cast<const Bfloat16*>(nullptr));
    case Type::float16:
      break;
  }
  body(static_cast<const Float16*>(nullptr));
}

}  // namespace shampoo::kernels::cuda
