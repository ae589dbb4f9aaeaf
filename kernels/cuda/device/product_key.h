// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace shampoo::kernels::cuda {

/// What the algorithm of a product is chosen by.
struct ProductKey {
  struct Operand {
    Type type = Type::float32;
    bool transposed = false;
    std::int64_t row = 0, stride = 0;
    std::uint32_t alignment = 1;  ///< of all its matrices and rows, in bytes, up to 16
    auto operator<=>(const Operand&) const = default;
  };
  std::int64_t rows = 0, columns = 0, depth = 0;
  Operand a, b, c;
  auto operator<=>(const ProductKey&) const = default;
};

inline ProductKey::Operand operand_of(const Matrices& matrices) {
  const auto bytes = static_cast<std::int64_t>(size_of(matrices.type));
  // The largest power of two up to 16 that divides all of them; no algorithm asks for more.
  std::uintptr_t common = 16 | reinterpret_cast<std::uintptr_t>(matrices.data) |
                          static_cast<std::uintptr_t>(matrices.row * bytes) |
                          static_cast<std::uintptr_t>(matrices.stride * bytes);
  common &= -common;
  return {matrices.type, matrices.transposed, matrices.row, matrices.stride,
          static_cast<std::uint32_t>(common)};
}

inline ProductKey key_of(const Product& p) {
  const auto in_place_of_c = [&](const void* data) {
    return operand_of({data, p.c_type, p.c_row, p.c_stride, false});
  };
  ProductKey key{p.rows, p.columns, p.depth, operand_of(p.a), operand_of(p.b), in_place_of_c(p.c)};
  if (p.addend != nullptr)
    key.c.alignment = std::min(key.c.alignment, in_place_of_c(p.addend).alignment);
  return key;
}

}  // namespace shampoo::kernels::cuda
