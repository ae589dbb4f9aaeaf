// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/types.h"

namespace shampoo::test {

/// Significant bits and least exponent of a normal number.
struct Format {
  int bits, least_exponent;
  double largest;
};

inline Format format_of(Type type) {
  switch (type) {
    case Type::float64:
      return {53, -1022, std::numeric_limits<double>::max()};
    case Type::float32:
      return {24, -126, std::numeric_limits<float>::max()};
    case Type::bfloat16:
      return {8, -126, 0x1.fep127};
    case Type::float16:
      return {11, -14, 65504};
  }
  return {};
}

/// x rounded to the nearest number of a type, ties to even.
inline double rounded(double x, Type type) {
  if (x == 0 || !std::isfinite(x) || type == Type::float64) return x;
  if (type == Type::float32) return static_cast<float>(x);
  const Format format = format_of(type);
  const int last_place = std::max(std::ilogb(x), format.least_exponent) - format.bits + 1;
  const double y = std::ldexp(std::nearbyint(std::ldexp(x, -last_place)), last_place);
  return std::abs(y) > format.largest ? std::copysign(HUGE_VAL, x) : y;
}

/// Reads an element by the definition of its type.
inline double read(const void* at, Type type) {
  if (type == Type::float64) {
    double x;
    std::memcpy(&x, at, sizeof(x));
    return x;
  }
  if (type == Type::float32) {
    float x;
    std::memcpy(&x, at, sizeof(x));
    return x;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  if (type == Type::bfloat16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
}

/// Writes a number that the type holds exactly.
inline void write(void* at, Type type, double x) {
  if (type == Type::float64) {
    std::memcpy(at, &x, sizeof(x));
  } else if (type == Type::float32) {
    const float narrow = static_cast<float>(x);
    std::memcpy(at, &narrow, sizeof(narrow));
  } else if (type == Type::bfloat16) {
    const auto bits =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16);
    std::memcpy(at, &bits, sizeof(bits));
  } else {
    // Every float16 is one of 65536.
    const double size = std::abs(x);
    const int exponent = size == 0 ? -15 : std::max(std::ilogb(size), -15);
    int bits = 0x7c00;
    if (std::isnan(x))
      bits = 0x7e00;
    else if (size <= 65504)
      bits = exponent == -15 ? static_cast<int>(std::ldexp(size, 24))
                             : ((exponent + 15) << 10) +
                                   (static_cast<int>(std::ldexp(size, 10 - exponent)) & 1023);
    const auto stored = static_cast<std::uint16_t>(bits | (std::signbit(x) ? 0x8000 : 0));
    std::memcpy(at, &stored, sizeof(stored));
  }
}

/// Deterministic numbers, evenly spread over (-1, 1).
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2654435769u + 1) {}

  double next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<double>(static_cast<std::int64_t>(state_) >> 11) * 0x1p-52;
  }

  template <typename Real>
  std::vector<Real> some(std::int64_t count) {
    std::vector<Real> result(static_cast<std::size_t>(count));
    for (Real& x : result) x = static_cast<Real>(next());
    return result;
  }

 private:
  std::uint64_t state_;
};

template <typename Real>
constexpr Type type_of = sizeof(Real) == sizeof(float) ? Type::float32 : Type::float64;

template <typename Real>
constexpr double epsilon_of = static_cast<double>(std::numeric_limits<Real>::epsilon());

/// A sum, with the sum of the sizes of its terms, which bounds its rounding.
struct Sum {
  double value = 0, size = 0;
  std::int64_t terms = 0;

  void add(double term) {
    value += term;
    size += std::abs(term);
    ++terms;
  }
};

}  // namespace shampoo::test
