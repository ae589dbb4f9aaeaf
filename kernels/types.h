// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shampoo {

/// Type of the elements of a tensor.
enum class Type : std::uint8_t { float64, float32, bfloat16, float16 };

/// Bytes of one element.
constexpr std::size_t size_of(Type type) {
  switch (type) {
    case Type::float64:
      return 8;
    case Type::float32:
      return 4;
    case Type::bfloat16:
    case Type::float16:
      return 2;
  }
  return 0;
}

constexpr std::string_view name_of(Type type) {
  switch (type) {
    case Type::float64:
      return "float64";
    case Type::float32:
      return "float32";
    case Type::bfloat16:
      return "bfloat16";
    case Type::float16:
      return "float16";
  }
  return "";
}

/// Memory space of the arrays of a backend.
enum class MemoryKind : std::uint8_t { host, cuda };

/// True if the owner keeps values of this type as float32 masters.
constexpr bool has_master(Type type) { return size_of(type) == 2; }

}  // namespace shampoo
