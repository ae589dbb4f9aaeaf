// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "grouping/plan.h"

namespace shampoo::grouping {

/// Every segment starts at a multiple of this many bytes.
inline constexpr std::int64_t segment_alignment = 64;

/// Where every block's values lie in the buffer of a whole exchange, in bytes.
///
/// Segments lie rank by rank. A segment is the header, then virtual group by virtual group the
/// blocks in the order of the rank's flat run, each at a multiple of its element size.
struct Segments {
  std::vector<std::int64_t> begins;               ///< ranks + 1 numbers; the last is the total
  std::vector<std::vector<std::int64_t>> blocks;  ///< of every virtual group, of every block

  bool operator==(const Segments&) const = default;
};

/// Lays out the exchange. Throws std::invalid_argument for header_bytes < 0 and, naming the
/// parameter, where an offset would exceed 2^63 - 1.
Segments segments(const Plan& plan, std::int64_t header_bytes);

}  // namespace shampoo::grouping
