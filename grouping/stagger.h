// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shampoo::grouping {

/// The refresh of a block: work that its owner has at the steps t of the block's parameter with
/// (t + phase) mod interval = 0.
struct BlockRefresh {
  std::int64_t work = 0;      ///< >= 0, in the unit of Work::cost
  std::int64_t interval = 1;  ///< >= 1
  std::int64_t phase = 0;     ///< in [0, interval)

  bool operator==(const BlockRefresh&) const = default;
};

/// Chooses the phases of blocks, one after the other: of the phases with the fewest blocks of the
/// same work and interval, the one with the least work of that interval, of equal ones the first. A
/// block without work gets 0. The first `known` blocks have phases that were chosen so, and keep
/// them.
void stagger(std::span<BlockRefresh> blocks, std::size_t known = 0);

}  // namespace shampoo::grouping
