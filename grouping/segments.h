// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "grouping/plan.h"

namespace shampoo::grouping {

/// Every segment starts at a multiple of this many bytes.
inline constexpr std::int64_t segment_alignment = 64;

/// Every block starts at a multiple of this many bytes, which kernels access at a time.
inline constexpr std::int64_t block_alignment = 16;

/// Byte offsets of every block's values in the buffer of a whole exchange.
///
/// Segments lie rank by rank. A segment is the header, then virtual group by virtual group the
/// blocks in the order of the rank's flat run. All are as long as the longest where that adds at
/// most usual_padding_percent: collectives are faster with parts of equal length.
struct Segments {
  /// First byte of each segment, then the total: ranks + 1 numbers.
  std::vector<std::int64_t> begins;
  /// First byte of each block of each virtual group.
  std::vector<std::vector<std::int64_t>> blocks;
  std::int64_t padding = 0;  ///< bytes of the total that were added for equal length

  std::int64_t longest() const;
  bool equally_long() const { return longest() * (std::ssize(begins) - 1) == begins.back(); }

  bool operator==(const Segments&) const = default;
};

/// Lays out the exchange. Throws std::invalid_argument for header_bytes outside [0, 2^62 / ranks]
/// and, naming the parameter, where an offset would exceed 2^62.
Segments segments(const Plan& plan, std::int64_t header_bytes);

}  // namespace shampoo::grouping
