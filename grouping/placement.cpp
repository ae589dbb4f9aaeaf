// SPDX-License-Identifier: Apache-2.0
#include "grouping/placement.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

namespace shampoo::grouping {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t largest_sum = std::numeric_limits<std::int64_t>::max();

/// Shares of a bound are counted in units of 2^-30 of it: the shares of all blocks together are
/// fewer than 2^31 bounds, so sums of the four criteria stay under 2^63.
constexpr std::int64_t whole = std::int64_t{1} << 30;

/// The work of refreshes is counted in so many pairs of a rank and a phase, or one for each rank.
constexpr std::int64_t most_cells = std::int64_t{1} << 21;

std::int64_t share_of(std::int64_t size, std::int64_t bound) {
  return bound == 0 ? 0 : static_cast<std::int64_t>(Wide{size} * whole / bound);
}

std::int64_t sum(const Work& share) { return share.cost + share.bytes + share.state; }

/// A block's shares of the bounds.
struct Share {
  Work work;
  std::int64_t refresh = 0;

  /// Blocks are dealt out in descending order of this. Equal keys are equal shares.
  auto key() const { return std::tuple(sum(work), work.cost, work.bytes, work.state, refresh); }
};

/// How full a rank would be. The least in this order takes the next block.
struct Fullness {
  std::int64_t excess;  ///< bytes beyond the cap
  std::int64_t worst;   ///< the largest share of the four
  std::int64_t total;
  int rank;

  auto key() const { return std::tuple(excess, worst, total, rank); }
  bool operator>(const Fullness& other) const { return key() > other.key(); }
};

Fullness fullness(const Work& load, std::int64_t refresh, std::int64_t cap, int rank) {
  return {std::max<std::int64_t>(0, load.bytes - cap),
          std::max({load.cost, load.bytes, load.state, refresh}), sum(load) + refresh, rank};
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

void check(std::span<const BlockRefresh> refreshes, std::size_t blocks) {
  if (!refreshes.empty() && refreshes.size() != blocks)
    throw std::invalid_argument("refreshes must be as many as blocks, or none, got " +
                                std::to_string(refreshes.size()));
  std::int64_t room = largest_sum;
  for (const BlockRefresh& refresh : refreshes) {
    if (refresh.work < 0 || refresh.work > room || refresh.interval < 1 || refresh.phase < 0 ||
        refresh.phase >= refresh.interval)
      throw std::invalid_argument(
          "refreshes: works must each be at least 0 and sum to at most 2^63 - 1, intervals must be "
          "at least 1, phases in [0, interval)");
    room -= refresh.work;
  }
}

/// What the ranks hold while blocks are dealt out, in shares.
struct Table {
  std::vector<Share> shares;                ///< per block
  std::vector<std::int64_t> phases;         ///< per block: a row of `refreshes`
  std::vector<int> owners;                  ///< per block
  std::vector<Work> loads;                  ///< per rank
  std::vector<std::int64_t> refresh_loads;  ///< per phase and rank
  std::int64_t cap;

  std::int64_t& refresh_load(int block, int rank) {
    return refresh_loads[phases[block] * loads.size() + rank];
  }
  Fullness with(int block, int rank) {
    const Share& share = shares[block];
    return fullness(loads[rank] + share.work,
                    share.refresh == 0 ? 0 : refresh_load(block, rank) + share.refresh, cap, rank);
  }
  void give(int block, int rank) {
    owners[block] = rank;
    loads[rank] = loads[rank] + shares[block].work;
    refresh_load(block, rank) += shares[block].refresh;
  }
};

void add_shares(std::span<const Work> blocks, Table& table) {
  const Work bounds = lower_bounds(blocks, static_cast<int>(table.loads.size()));
  for (const Work& work : blocks)
    table.shares.push_back({{share_of(work.cost, bounds.cost), share_of(work.bytes, bounds.bytes),
                             share_of(work.state, bounds.state)}});
}

/// The shares of refreshes. With more phases than cells, several share a row.
void add_refreshes(std::span<const BlockRefresh> refreshes, Table& table) {
  const auto ranks = static_cast<std::int64_t>(table.loads.size());
  const std::int64_t most = std::max<std::int64_t>(1, most_cells / ranks);
  std::map<std::int64_t, std::vector<std::int64_t>> works;
  for (const BlockRefresh& refresh : refreshes)
    if (refresh.work > 0) works[refresh.interval].push_back(refresh.work);

  std::int64_t rows = 1;
  for (auto& [interval, of_interval] : works) {
    const std::int64_t steps = std::min(interval, most);
    const std::int64_t bound =
        refresh_bound(std::move(of_interval), static_cast<int>(ranks), steps);
    std::int64_t end = rows;
    for (std::size_t b = 0; b < refreshes.size(); ++b) {
      if (refreshes[b].interval != interval || refreshes[b].work == 0) continue;
      table.phases[b] = rows + refreshes[b].phase % steps;
      table.shares[b].refresh = share_of(refreshes[b].work, bound);
      end = std::max(end, table.phases[b] + 1);
    }
    rows = end;
  }
  table.refresh_loads.resize(rows * ranks);
}

/// Gives a block to the rank that is then least full.
void deal_one(Table& table, int block) {
  Fullness least = table.with(block, 0);
  for (int r = 1; r < static_cast<int>(table.loads.size()); ++r) {
    const Fullness other = table.with(block, r);
    if (least > other) least = other;
  }
  table.give(block, least.rank);
}

/// Like deal_one() for blocks of equal shares, one after the other. Only the rank that took a block
/// becomes fuller, so that a heap of each phase finds the next one.
void deal(Table& table, std::span<const int> equal) {
  std::map<std::int64_t, std::vector<Fullness>> heaps;
  for (int block : equal) {
    std::vector<Fullness>& heap = heaps[table.phases[block]];
    if (heap.empty()) {
      for (int r = 0; r < static_cast<int>(table.loads.size()); ++r)
        heap.push_back(table.with(block, r));
      std::make_heap(heap.begin(), heap.end(), std::greater<>());
    }
    // A rank that took a block of another phase is fuller than this heap knows.
    for (bool current = false; !current;) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      const Fullness now = table.with(block, heap.back().rank);
      current = !(now > heap.back());
      heap.back() = now;
      if (!current) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
    table.give(block, heap.back().rank);
    heap.back() = table.with(block, heap.back().rank);
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

std::int64_t refresh_bound(std::vector<std::int64_t> works, int ranks, std::int64_t interval) {
  // With a bin for each, the bound is the largest, as it is with more bins.
  const auto count = static_cast<std::int64_t>(works.size());
  const std::int64_t bins = interval > count / ranks ? count : interval * ranks;
  return lower_bound(std::move(works), static_cast<int>(std::max<std::int64_t>(1, bins)));
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
                       int padding_percent, std::span<const BlockRefresh> refreshes) {
  check_ranks(ranks);
  check(blocks);
  check(owners, blocks.size(), ranks);
  check(refreshes, blocks.size());
  if (padding_percent < 0)
    throw std::invalid_argument("padding_percent must be at least 0, got " +
                                std::to_string(padding_percent));

  Table table{.shares = {},
              .phases = std::vector<std::int64_t>(blocks.size()),
              .owners = std::vector<int>(blocks.size()),
              .loads = std::vector<Work>(ranks),
              .refresh_loads = {},
              .cap = whole + whole * padding_percent / 100};
  add_shares(blocks, table);
  add_refreshes(refreshes, table);
  for (std::size_t b = 0; b < owners.size(); ++b) table.give(static_cast<int>(b), owners[b]);

  std::vector<int> order(blocks.size() - owners.size());
  std::iota(order.begin(), order.end(), static_cast<int>(owners.size()));
  const auto key = [&](int block) { return table.shares[block].key(); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
  for (auto first = order.begin(); first != order.end();) {
    const auto last =
        std::find_if(first, order.end(), [&](int b) { return key(b) != key(*first); });
    if (last - first == 1)
      deal_one(table, *first);
    else
      deal(table, {first, last});
    first = last;
  }
  return std::move(table.owners);
}

}  // namespace shampoo::grouping
