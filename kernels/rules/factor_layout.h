// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/rules/host_device.h"
#include "kernels/rules/stored.h"

/// The array of a factor of side n, and of its root R if it has one.
namespace shampoo::kernels {

enum class FactorLayout : std::uint8_t {
  /// A pair array, row-major n x (n + 1): the factor in the lower triangle, element (i, j) with
  /// j <= i at i (n + 1) + j; the root in the upper one, element (i, j) with j >= i at
  /// i (n + 1) + j + 1.
  with_root,
  /// The factor's lower triangle alone: element (i, j) with j <= i at i (i + 1) / 2 + j.
  packed,
  /// The same, then n scales d, powers of two, then the lower triangle of C in float16, packed
  /// likewise: R_ij = d_i C_ij d_j. With d_i^2 <= R_ii < 4 d_i^2 no |C_ij| of a definite root
  /// exceeds 4, and rounding adds at most 2^-11 |R_ij| + 2^-25 d_i d_j to an element.
  with_float16_root
};

SHAMPOO_RULE bool is_packed(FactorLayout layout) { return layout != FactorLayout::with_root; }

/// Elements of the factor before row i.
SHAMPOO_RULE std::int64_t triangle_row(bool packed, std::int64_t side, std::int64_t i) {
  return packed ? i * (i + 1) / 2 : i * (side + 1);
}

/// Elements before the scales, and before C.
SHAMPOO_RULE std::int64_t scales_begin(std::int64_t side) { return side * (side + 1) / 2; }
SHAMPOO_RULE std::int64_t float16_begin(std::int64_t side) { return scales_begin(side) + side; }

/// Elements of so many bytes in the whole array, the root's included.
SHAMPOO_RULE std::int64_t array_elements(FactorLayout layout, std::int64_t side,
                                         std::int64_t bytes) {
  const std::int64_t triangle = side * (side + 1) / 2;
  if (layout == FactorLayout::with_root) return 2 * triangle;
  if (layout == FactorLayout::packed) return triangle;
  return float16_begin(side) + (2 * triangle + bytes - 1) / bytes;
}

/// d and C of an array.
template <typename Real>
SHAMPOO_RULE Real* scales_of(Real* array, std::int64_t side) {
  return array + scales_begin(side);
}
template <typename Real>
SHAMPOO_RULE Float16* float16_root_of(Real* array, std::int64_t side) {
  return reinterpret_cast<Float16*>(array + float16_begin(side));
}
template <typename Real>
SHAMPOO_RULE const Float16* float16_root_of(const Real* array, std::int64_t side) {
  return reinterpret_cast<const Float16*>(array + float16_begin(side));
}

/// The power of two d with d^2 <= x < 4 d^2; 1 where x is not positive or not normal.
SHAMPOO_RULE float root_scale(float x) {
  const std::uint32_t exponent = bits_of(x) >> 23;  // and the sign
  if (exponent == 0 || exponent >= 255) return 1;
  return float_of((exponent + 127) / 2 << 23);
}
SHAMPOO_RULE double root_scale(double x) {
  const std::uint64_t exponent = bits_to<std::uint64_t>(x) >> 52;
  if (exponent == 0 || exponent >= 2047) return 1;
  return bits_to<double>((exponent + 1023) / 2 << 52);
}

SHAMPOO_RULE bool is_finite_number(Float16 x) { return (x.bits & 0x7c00u) != 0x7c00u; }

/// C_ij of R_ij; every product but the last rounding is exact unless C_ij underflows.
template <typename Real>
SHAMPOO_RULE Float16 scaled_root(Real root, Real d_i, Real d_j) {
  return stored<Float16>(root * (1 / d_i) * (1 / d_j));
}

}  // namespace shampoo::kernels
