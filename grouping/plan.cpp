// SPDX-License-Identifier: Apache-2.0
#include "grouping/plan.h"

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
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

void check(const PlannedParameter& parameter, Work& sums, std::int64_t& blocks) {
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
    accumulate(sums.cost, block.work.cost, parameter, "cost");
    accumulate(sums.bytes, block.work.bytes, parameter, "bytes");
    accumulate(sums.state, block.work.state, parameter, "state");
  }
  if (covered != elements)
    refuse(parameter, "its blocks have " + std::to_string(covered) + " elements, its shape has " +
                          std::to_string(elements));
  blocks += static_cast<std::int64_t>(parameter.blocks.size());
  if (blocks > std::numeric_limits<int>::max())
    refuse(parameter, "all blocks together must be at most 2^31 - 1");
}

void check(const std::vector<PlannedGroup>& groups) {
  Work sums;
  std::int64_t blocks = 0;
  for (const PlannedGroup& group : groups)
    for (const PlannedParameter& parameter : group.parameters) check(parameter, sums, blocks);
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

}  // namespace

Plan plan(std::vector<PlannedGroup> groups, int ranks, int padding_percent) {
  Plan empty;
  empty.ranks = ranks;
  empty.padding_percent = padding_percent;
  return extend(std::move(empty), std::move(groups));
}

Plan extend(Plan before, std::vector<PlannedGroup> groups) {
  std::size_t known = 0;
  for (const std::vector<Block>& blocks : before.blocks) known += blocks.size();
  Plan after = std::move(before);
  std::move(groups.begin(), groups.end(), std::back_inserter(after.groups));
  check(after.groups);

  const std::vector<Place> places = list_blocks(after);
  std::vector<Work> works;
  std::vector<int> owners;
  for (const Place& place : places) {
    const Block& block = after.blocks[place.virtual_group][place.block];
    works.push_back(after.block_work(place.virtual_group, block).work);
    if (owners.size() < known) owners.push_back(block.owner);
  }
  owners = place(works, after.ranks, owners, after.padding_percent);
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
