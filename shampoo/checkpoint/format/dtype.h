// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/types.h"

namespace shampoo::checkpoint {

/// The element types of the safetensors format, in the order of dtypes().
enum class Dtype : std::uint8_t {
  bool8,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;  ///< as files spell it: "F32"
  int bits;               ///< of one element
};

std::span<const DtypeFacts> dtypes();

std::string_view name_of(Dtype dtype);
int bits_of(Dtype dtype);
/// Empty for a name that no format knows.
std::optional<Dtype> dtype_named(std::string_view name);

Dtype dtype_of(Type type);
/// Empty where the library computes with nothing alike.
std::optional<Type> type_of(Dtype dtype);

}  // namespace shampoo::checkpoint
