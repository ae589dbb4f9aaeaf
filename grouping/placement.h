// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grouping/stagger.h"

namespace shampoo::grouping {

/// Cost of a block for the rank that owns it: time per step in any unit, bytes that the rank sends
/// for it, bytes of state. Integers, so that no two ranks can round differently. Each is >= 0.
struct Work {
  std::int64_t cost = 0;
  std::int64_t bytes = 0;
  std::int64_t state = 0;

  bool operator==(const Work&) const = default;
};

/// a + b, field by field.
constexpr Work operator+(const Work& a, const Work& b) {
  return {a.cost + b.cost, a.bytes + b.bytes, a.state + b.state};
}

/// No placement of blocks of these sizes (all >= 0, together at most 2^63 - 1) on `ranks` >= 1
/// ranks gives every rank less than this: the largest of the mean (rounded up), the largest size,
/// and, for every j, the j + 1 smallest of the j * ranks + 1 largest sizes, of which some rank
/// holds j + 1.
std::int64_t lower_bound(std::vector<std::int64_t> sizes, int ranks);

/// The same for the work of refreshes of one interval in one step of one rank: of `ranks` *
/// `interval` bins.
std::int64_t refresh_bound(std::vector<std::int64_t> works, int ranks, std::int64_t interval);

/// The lower bounds of cost, of bytes and of state.
Work lower_bounds(std::span<const Work> blocks, int ranks);

/// The sum of the works of each rank's blocks. Every owner is in [0, ranks).
std::vector<Work> loads(std::span<const Work> blocks, std::span<const int> owners, int ranks);

/// What equally long parts of an exchange may add to its bytes.
inline constexpr int usual_padding_percent = 4;

/// Chooses an owner in [0, ranks) for every block, so that the largest cost, bytes and state of a
/// rank and its largest work of refreshes in a step are all close to their lower bounds: longest
/// processing time first [Graham 1969], for four sizes at once. A pure function of its arguments,
/// in integers. `refreshes` are those of the blocks, or empty: none.
///
/// `owners` are the owners of the first owners.size() blocks, and are kept. Where parts of an
/// exchange must be equally long, the largest rank's bytes are what all of them send; so a rank
/// takes more than 1 + padding_percent / 100 times the lower bound of the bytes only where no
/// rank could take the block without. Throws std::invalid_argument for ranks < 1, a negative
/// work or percentage, sums beyond 2^63 - 1, an owner that is no rank, or another number of
/// refreshes.
std::vector<int> place(std::span<const Work> blocks, int ranks, std::span<const int> owners = {},
                       int padding_percent = usual_padding_percent,
                       std::span<const BlockRefresh> refreshes = {});

}  // namespace shampoo::grouping
