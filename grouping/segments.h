// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "grouping/plan.h"

namespace shampoo::grouping {

/// Every segment starts at a multiple of this many bytes.
inline constexpr std::int64_t segment_alignment = 64;

/// Byte offsets of every block's values in the buffer of a whole exchange.
///
/// Segments lie rank by rank. A segment is the header, then virtual group by virtual group the
/// blocks in the order of the rank's flat run, each at a multiple of its element size.
struct Segments {
  /// First byte of each segment, then the total: ranks + 1 numbers.
  std::vector<std::int64_t> begins;
  /// First byte of each block of each virtual group.
  std::vector<std::vector<std::int64_t>> blocks;

  bool operator==(const Segments&) const = default;
};

/// Lays out the exchange. Throws std::invalid_argument for header_bytes < 0 and, naming the
/// parameter, where an offset would exceed 2^63 - 1.
Segments segments(const Plan& plan, std::int64_t header_bytes);

}  // namespace shampoo::grouping
