// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/rules/factor_layout.h"
#include "kernels/rules/stored.h"

/// Operands of tile products: matrices of lines (rows of a left operand, columns of a right one)
/// by places along the contraction. offset(line, place) and value(offset) read an element;
/// along_places() says which of both should run through consecutive threads.
namespace shampoo::kernels::cuda {

/// Elements from the start of one index to that of another: of two indices in one, if `divisor` is
/// not 0.
struct Axis {
  std::int64_t inner = 1;  ///< elements from one index to the next
  std::int64_t divisor = 0;
  std::int64_t outer = 0;  ///< elements from one multiple of the divisor to the next

  SHAMPOO_BOTH std::int64_t offset(std::int64_t index) const {
    if (divisor == 0) return index * inner;
    return index / divisor * outer + index % divisor * inner;
  }
};

/// Addresses of the elements of an operand.
struct Grid {
  Axis lines, places;
  std::int64_t line_count = 0, place_count = 0;

  SHAMPOO_BOTH bool along_places(std::int64_t, std::int64_t) const {
    return places.inner < lines.inner;
  }
  SHAMPOO_BOTH std::int64_t line_offset(std::int64_t line) const { return lines.offset(line); }
  SHAMPOO_BOTH std::int64_t offset(std::int64_t line_offset, std::int64_t,
                                   std::int64_t place) const {
    return line_offset + places.offset(place);
  }
};

/// Elements of some type, scaled in the arithmetic type.
template <typename Real>
struct Strided : Grid {
  const void* data = nullptr;
  Type type = Type::float32;
  Real scale = 1;

  /// body(value), with value(offset) an element.
  template <typename Body>
  SHAMPOO_BOTH void with_values(Body&& body) const {
    with_type(type, [&](auto* tag) {
      const auto* const elements = static_cast<const Element<decltype(tag)>*>(data);
      body([&](std::int64_t offset) { return scale * real<Real>(elements[offset]); });
    });
  }
};

/// Elements of the arithmetic type.
template <typename Real>
struct Plain : Grid {
  const Real* data = nullptr;

  template <typename Body>
  SHAMPOO_BOTH void with_values(Body&& body) const {
    body([this](std::int64_t offset) { return data[offset]; });
  }
};

/// The root of a pair array.
template <typename Real>
struct PairRoot {
  const Real* pair = nullptr;
  std::int64_t line_count = 0, place_count = 0;  ///< both the side

  /// The upper triangle's rows are consecutive: lines above the diagonal run along places.
  SHAMPOO_BOTH bool along_places(std::int64_t line, std::int64_t place) const {
    return line <= place;
  }
  SHAMPOO_BOTH std::int64_t line_offset(std::int64_t) const { return 0; }
  SHAMPOO_BOTH std::int64_t offset(std::int64_t, std::int64_t line, std::int64_t place) const {
    return line <= place ? line * (line_count + 1) + place + 1
                         : place * (line_count + 1) + line + 1;
  }
  template <typename Body>
  SHAMPOO_BOTH void with_values(Body&& body) const {
    body([this](std::int64_t offset) { return pair[offset]; });
  }
};

/// The root of an array that has it in float16. An offset holds the row and the column of an
/// element of the lower triangle.
template <typename Real>
struct Float16Root {
  const Real* array = nullptr;
  std::int64_t line_count = 0, place_count = 0;  ///< both the side

  /// The triangle's rows are consecutive: lines below the diagonal run along places.
  SHAMPOO_BOTH bool along_places(std::int64_t line, std::int64_t place) const {
    return line >= place;
  }
  SHAMPOO_BOTH std::int64_t line_offset(std::int64_t) const { return 0; }
  SHAMPOO_BOTH std::int64_t offset(std::int64_t, std::int64_t line, std::int64_t place) const {
    return line >= place ? line << 32 | place : place << 32 | line;
  }
  template <typename Body>
  SHAMPOO_BOTH void with_values(Body&& body) const {
    const Real* const d = scales_of(array, line_count);
    const Float16* const c = float16_root_of(array, line_count);
    body([&](std::int64_t offset) {
      const std::int64_t row = offset >> 32, column = offset & 0xffffffff;
      return real<Real>(c[triangle_row(true, line_count, row) + column]) * (d[row] * d[column]);
    });
  }
};

}  // namespace shampoo::kernels::cuda
