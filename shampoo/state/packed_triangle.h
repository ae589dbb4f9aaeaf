// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace shampoo {

/// Which matrix of the array that a factor shares with its root; see kernels::Stack.
enum class Half : std::uint8_t { factor, root };

/// The lower triangle of a symmetric matrix of side n, row after row, from and to the array.
/// `type` is float32 or float64. unpack() leaves the other half alone.
void pack(const std::byte* array, Half half, std::int64_t n, Type type, std::byte* packed);
/// The same for the rows [first, last) alone.
void pack_rows(const std::byte* array, Half half, std::int64_t first, std::int64_t last,
               std::int64_t n, Type type, std::byte* packed);
void unpack(const std::byte* packed, Half half, std::int64_t n, Type type, std::byte* array);

}  // namespace shampoo
