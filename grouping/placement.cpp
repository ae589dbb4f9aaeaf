// SPDX-License-Identifier: Apache-2.0
#include "grouping/placement.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

namespace shampoo::grouping {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t largest_sum = std::numeric_limits<std::int64_t>::max();

/// Shares of a bound are counted in units of 2^-30 of it: the shares of all blocks together are
/// at most `ranks` bounds, so sums of the three criteria stay under 3 * 2^61.
constexpr std::int64_t whole = std::int64_t{1} << 30;

std::int64_t share_of(std::int64_t size, std::int64_t bound) {
  return bound == 0 ? 0 : static_cast<std::int64_t>(Wide{size} * whole / bound);
}

std::int64_t sum(const Work& share) { return share.cost + share.bytes + share.state; }

/// Blocks are dealt out in descending order of this. Equal keys are equal shares.
auto key(const Work& share) { return std::tuple(sum(share), share.cost, share.bytes, share.state); }

/// How full a rank would be. The least in this order takes the next block.
struct Fullness {
  std::int64_t excess;  ///< bytes beyond the cap
  std::int64_t worst;   ///< the largest share of the three
  std::int64_t total;
  int rank;

  auto key() const { return std::tuple(excess, worst, total, rank); }
  bool operator>(const Fullness& other) const { return key() > other.key(); }
};

Fullness fullness(const Work& load, std::int64_t cap, int rank) {
  return {std::max<std::int64_t>(0, load.bytes - cap),
          std::max({load.cost, load.bytes, load.state}), sum(load), rank};
}

void check_ranks(int ranks) {
  if (ranks < 1)
    throw std::invalid_argument("ranks must be at least 1, got " + std::to_string(ranks));
}

void check(std::span<const Work> blocks) {
  const auto refuse = [](std::size_t block, const char* fault) {
    throw std::invalid_argument("block " + std::to_string(block) +
                                ": cost, bytes and state must each " + fault);
  };
  Work room{largest_sum, largest_sum, largest_sum};
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Work& work = blocks[b];
    if (std::min({work.cost, work.bytes, work.state}) < 0) refuse(b, "be at least 0");
    if (work.cost > room.cost || work.bytes > room.bytes || work.state > room.state)
      refuse(b, "sum to at most 2^63 - 1");
    room = {room.cost - work.cost, room.bytes - work.bytes, room.state - work.state};
  }
}

void check(std::span<const int> owners, std::size_t blocks, int ranks) {
  if (owners.size() > blocks)
    throw std::invalid_argument("owners must be at most as many as blocks, got " +
                                std::to_string(owners.size()));
  for (int owner : owners)
    if (owner < 0 || owner >= ranks)
      throw std::invalid_argument("owners must be in [0, " + std::to_string(ranks) + "), got " +
                                  std::to_string(owner));
}

std::vector<Work> shares_of(std::span<const Work> blocks, int ranks) {
  const Work bounds = lower_bounds(blocks, ranks);
  std::vector<Work> shares;
  for (const Work& work : blocks)
    shares.push_back({share_of(work.cost, bounds.cost), share_of(work.bytes, bounds.bytes),
                      share_of(work.state, bounds.state)});
  return shares;
}

/// What the ranks hold while blocks are dealt out, in shares.
struct Table {
  std::span<const Work> shares;
  std::vector<int>& owners;
  std::vector<Work> loads;
  std::int64_t cap;

  Fullness with(int rank, const Work& more) const {
    return fullness(loads[rank] + more, cap, rank);
  }
};

void give(Table& table, int block, int rank) {
  table.owners[block] = rank;
  table.loads[rank] = table.loads[rank] + table.shares[block];
}

/// Gives a block to the rank that is then least full.
void deal_one(Table& table, int block) {
  Fullness least = table.with(0, table.shares[block]);
  for (int r = 1; r < static_cast<int>(table.loads.size()); ++r) {
    const Fullness other = table.with(r, table.shares[block]);
    if (least > other) least = other;
  }
  give(table, block, least.rank);
}

/// Like deal_one() for blocks of equal shares, one after the other: only the rank that took a
/// block becomes fuller.
void deal(Table& table, std::span<const int> equal) {
  const Work share = table.shares[equal[0]];
  std::vector<Fullness> heap;
  heap.reserve(table.loads.size());
  for (int r = 0; r < static_cast<int>(table.loads.size()); ++r)
    heap.push_back(table.with(r, share));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  for (int block : equal) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    give(table, block, heap.back().rank);
    heap.back() = table.with(heap.back().rank, share);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
}

}  // namespace

std::int64_t lower_bound(std::vector<std::int64_t> sizes, int ranks) {
  check_ranks(ranks);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  std::vector<Wide> sums{0};
  for (std::int64_t size : sizes) sums.push_back(sums.back() + size);

  Wide bound = (sums.back() + ranks - 1) / ranks;
  for (std::size_t j = 0, end = 1; end <= sizes.size(); ++j, end += ranks) {
    // The j + 1 smallest of the j * ranks + 1 largest.
    bound = std::max(bound, sums[end] - sums[end - (j + 1)]);
  }
  return static_cast<std::int64_t>(bound);
}

Work lower_bounds(std::span<const Work> blocks, int ranks) {
  const auto bound = [&](std::int64_t Work::*field) {
    std::vector<std::int64_t> sizes;
    for (const Work& work : blocks) sizes.push_back(work.*field);
    return lower_bound(std::move(sizes), ranks);
  };
  return {bound(&Work::cost), bound(&Work::bytes), bound(&Work::state)};
}

std::vector<Work> loads(std::span<const Work> blocks, std::span<const int> owners, int ranks) {
  std::vector<Work> sums(ranks);
  for (std::size_t b = 0; b < owners.size(); ++b) sums[owners[b]] = sums[owners[b]] + blocks[b];
  return sums;
}

std::vector<int> place(std::span<const Work> blocks, int ranks, std::span<const int> owners,
                       int padding_percent) {
  check_ranks(ranks);
  check(blocks);
  check(owners, blocks.size(), ranks);
  if (padding_percent < 0)
    throw std::invalid_argument("padding_percent must be at least 0, got " +
                                std::to_string(padding_percent));

  const std::vector<Work> shares = shares_of(blocks, ranks);
  std::vector<int> order(blocks.size() - owners.size());
  std::iota(order.begin(), order.end(), static_cast<int>(owners.size()));
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return key(shares[a]) > key(shares[b]); });

  std::vector<int> placed(owners.begin(), owners.end());
  placed.resize(blocks.size());
  Table table{shares, placed, loads(shares, owners, ranks), whole + whole * padding_percent / 100};
  for (auto first = order.begin(); first != order.end();) {
    const auto last =
        std::find_if(first, order.end(), [&](int b) { return shares[b] != shares[*first]; });
    if (last - first == 1)
      deal_one(table, *first);
    else
      deal(table, {first, last});
    first = last;
  }
  return placed;
}

}  // namespace shampoo::grouping
