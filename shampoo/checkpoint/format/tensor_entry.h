// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/dtype.h"

namespace shampoo::checkpoint {

/// A tensor of a safetensors file, as its header has it.
struct TensorEntry {
  std::string name;  ///< UTF-8
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::uint64_t begin = 0;          ///< first byte, counted from the end of the header
  std::uint64_t end = 0;            ///< one past the last byte

  bool operator==(const TensorEntry&) const = default;
};

/// Keys of the header that are not tensors are kept under this one.
inline constexpr std::string_view metadata_key = "__metadata__";

/// Longest header of the format, in bytes.
inline constexpr std::uint64_t most_header_bytes = 100'000'000;

/// Bytes before the header: its length, the lowest byte first.
inline constexpr std::uint64_t header_begin = 8;

/// Bytes of a row-major tensor. Empty for a negative side, where the product of the sides or the
/// number of bits exceeds 64 bits, and where the bits fill no whole bytes.
std::optional<std::uint64_t> bytes_of(Dtype dtype, std::span<const std::int64_t> shape);

/// For messages: in quotes, without control characters, cut after 200 bytes.
std::string in_quotes(std::string_view text);

}  // namespace shampoo::checkpoint
