// SPDX-License-Identifier: Apache-2.0
#include "grouping/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace shampoo::grouping {
namespace {

/// A block of any virtual group.
struct Place {
  int virtual_group;
  int block;
};

[[noreturn]] void refuse(const PlannedParameter& parameter, const std::string& fault) {
  throw std::invalid_argument("parameter '" + parameter.name + "': " + fault);
}

void accumulate(std::int64_t& sum, std::int64_t more, const PlannedParameter& parameter,
                const std::string& field) {
  if (more < 0) refuse(parameter, field + " must be at least 0, got " + std::to_string(more));
  if (__builtin_add_overflow(sum, more, &sum))
    refuse(parameter, field + " of all blocks together must be at most 2^63 - 1");
}

void check_box(const PlannedParameter& parameter, const Box& box) {
  const std::size_t order = parameter.shape.size();
  bool inside = box.offset.size() == order && box.extent.size() == order;
  for (std::size_t k = 0; inside && k < order; ++k)
    inside = box.offset[k] >= 0 && box.extent[k] >= 1 && box.extent[k] <= parameter.shape[k] &&
             box.offset[k] <= parameter.shape[k] - box.extent[k];
  if (!inside) refuse(parameter, "every block must be a box inside the shape");
}

/// Of all blocks so far.
struct Sums {
  Work works;
  std::int64_t refreshes = 0, blocks = 0;
};

void check(const PlannedParameter& parameter, Sums& sums) {
  std::int64_t elements = 0;
  try {
    elements = numel(parameter.shape);
  } catch (const std::invalid_argument& error) {
    refuse(parameter, error.what());
  }
  if (parameter.element_bytes < 1)
    refuse(parameter,
           "element_bytes must be at least 1, got " + std::to_string(parameter.element_bytes));
  std::int64_t covered = 0;
  for (const BlockWork& block : parameter.blocks) {
    check_box(parameter, block.box);
    accumulate(covered, numel(block.box.extent), parameter, "elements");
    accumulate(sums.works.cost, block.work.cost, parameter, "cost");
    accumulate(sums.works.bytes, block.work.bytes, parameter, "bytes");
    accumulate(sums.works.state, block.work.state, parameter, "state");
    accumulate(sums.refreshes, block.refresh, parameter, "refresh");
  }
  if (covered != elements)
    refuse(parameter, "its blocks have " + std::to_string(covered) + " elements, its shape has " +
                          std::to_string(elements));
  sums.blocks += static_cast<std::int64_t>(parameter.blocks.size());
  if (sums.blocks > std::numeric_limits<int>::max())
    refuse(parameter, "all blocks together must be at most 2^31 - 1");
}

void check(const std::vector<PlannedGroup>& groups) {
  Sums sums;
  for (const PlannedGroup& group : groups) {
    if (group.interval < 1)
      throw std::invalid_argument("interval must be at least 1, got " +
                                  std::to_string(group.interval));
    for (const PlannedParameter& parameter : group.parameters) check(parameter, sums);
  }
}

/// Brings virtual groups and their lists of blocks up to date with the groups, and returns the
/// places of all blocks, those known before first.
std::vector<Place> list_blocks(Plan& plan) {
  std::vector<Place> known, added;
  plan.virtual_groups = merge(plan.groups);
  plan.blocks.resize(plan.virtual_groups.size());
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v) {
    std::vector<Block>& blocks = plan.blocks[v];
    for (int b = 0; b < static_cast<int>(blocks.size()); ++b) known.push_back({v, b});
    const std::vector<Member>& members = plan.virtual_groups[v].members;
    // Members and parameters without blocks are passed over again; they add nothing.
    const int next = blocks.empty() ? 0 : blocks.back().member + 1;
    for (int m = next; m < static_cast<int>(members.size()); ++m)
      for (int p = 0; p < static_cast<int>(plan.parameter(members[m]).blocks.size()); ++p) {
        added.push_back({v, static_cast<int>(blocks.size())});
        blocks.push_back({m, p, 0});
      }
  }
  known.insert(known.end(), added.begin(), added.end());
  return known;
}

BlockRefresh refresh_of(const Plan& plan, int v, const Block& block) {
  const Member& member = plan.virtual_groups[v].members[block.member];
  return {plan.block_work(v, block).refresh, plan.groups[member.group].interval, block.phase};
}

/// Chooses the phases of the blocks after the first `known`, in an order that no grouping changes.
void choose_phases(Plan& plan, std::vector<Place> places, std::size_t known) {
  const auto block = [&](const Place& place) -> Block& {
    return plan.blocks[place.virtual_group][place.block];
  };
  const auto refresh = [&](const Place& place) {
    return refresh_of(plan, place.virtual_group, block(place));
  };
  const auto key = [&](const Place& place) {
    return std::tuple(-refresh(place).work,
                      std::string_view(plan.parameter(place.virtual_group, block(place)).name),
                      block(place).index);
  };
  std::sort(places.begin() + static_cast<std::ptrdiff_t>(known), places.end(),
            [&](const Place& a, const Place& b) { return key(a) < key(b); });
  std::vector<BlockRefresh> refreshes;
  for (const Place& place : places) refreshes.push_back(refresh(place));
  stagger(refreshes, known);
  for (std::size_t i = 0; i < places.size(); ++i) block(places[i]).phase = refreshes[i].phase;
}

}  // namespace

Plan plan(std::vector<PlannedGroup> groups, int ranks) {
  Plan empty;
  empty.ranks = ranks;
  return extend(std::move(empty), std::move(groups));
}

Plan extend(Plan before, std::vector<PlannedGroup> groups) {
  std::size_t known = 0;
  for (const std::vector<Block>& blocks : before.blocks) known += blocks.size();
  Plan after = std::move(before);
  std::move(groups.begin(), groups.end(), std::back_inserter(after.groups));
  check(after.groups);

  const std::vector<Place> places = list_blocks(after);
  choose_phases(after, places, known);
  std::vector<Work> works;
  std::vector<BlockRefresh> refreshes;
  std::vector<int> owners;
  for (const Place& place : places) {
    const Block& block = after.blocks[place.virtual_group][place.block];
    works.push_back(after.block_work(place.virtual_group, block).work);
    refreshes.push_back(refresh_of(after, place.virtual_group, block));
    if (owners.size() < known) owners.push_back(block.owner);
  }
  owners = place(works, after.ranks, owners, usual_padding_percent, refreshes);
  for (std::size_t i = 0; i < places.size(); ++i)
    after.blocks[places[i].virtual_group][places[i].block].owner = owners[i];
  return after;
}

std::vector<Work> loads(const Plan& plan) {
  std::vector<Work> sums(plan.ranks);
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v)
    for (const Block& block : plan.blocks[v])
      sums[block.owner] = sums[block.owner] + plan.block_work(v, block).work;
  return sums;
}

std::vector<RefreshBalance> refresh_balances(const Plan& plan) {
  struct Interval {
    std::vector<std::int64_t> works;
    std::map<std::int64_t, std::vector<std::int64_t>> phases;  ///< work of every rank
  };
  std::map<std::int64_t, Interval> intervals;
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v)
    for (const Block& block : plan.blocks[v]) {
      const BlockRefresh refresh = refresh_of(plan, v, block);
      if (refresh.work == 0) continue;
      Interval& interval = intervals[refresh.interval];
      interval.works.push_back(refresh.work);
      std::vector<std::int64_t>& ranks = interval.phases[refresh.phase];
      ranks.resize(plan.ranks);
      ranks[block.owner] += refresh.work;
    }

  std::vector<RefreshBalance> balances;
  for (auto& [steps, interval] : intervals) {
    RefreshBalance balance{.interval = steps};
    std::vector<std::int64_t> totals(plan.ranks);
    for (const auto& [phase, ranks] : interval.phases) {
      const auto most = std::max_element(ranks.begin(), ranks.end());
      balance.in_turn += *most;
      if (*most > balance.largest) {
        balance.largest = *most;
        balance.rank = static_cast<int>(most - ranks.begin());
      }
      for (int r = 0; r < plan.ranks; ++r) totals[r] += ranks[r];
    }
    for (const std::int64_t total : totals) balance.all += total;
    balance.at_once = *std::max_element(totals.begin(), totals.end());
    balance.bound = refresh_bound(std::move(interval.works), plan.ranks, steps);
    balances.push_back(balance);
  }
  return balances;
}

std::vector<std::vector<Stack>> stacks(const Plan& plan, int v) {
  std::vector<const Shape*> extents;
  std::vector<int> owners;
  for (const Block& block : plan.blocks[v]) {
    extents.push_back(&plan.block_work(v, block).box.extent);
    owners.push_back(block.owner);
  }
  return stack(extents, owners, plan.ranks);
}

}  // namespace shampoo::grouping
