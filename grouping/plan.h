// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "grouping/merge.h"
#include "grouping/placement.h"
#include "grouping/planned_group.h"
#include "grouping/stack.h"

namespace shampoo::grouping {

/// A block of a virtual group, the rank that owns it, and when it is refreshed.
struct Block {
  int member = 0;  ///< place in the virtual group's members
  int index = 0;   ///< place in the parameter's blocks
  int owner = 0;
  std::int64_t phase = 0;  ///< see BlockRefresh

  bool operator==(const Block&) const = default;
};

/// Who does what: a pure function of the sequence of groups added and the number of ranks, equal
/// on all ranks. Virtual groups and their blocks keep their places when groups are added. Phases
/// are those of stagger() for the blocks that are added at a time, by descending work, then name of
/// the parameter and index: the same on any number of ranks, however the parameters are grouped,
/// merged and ordered.
struct Plan {
  int ranks = 1;
  /// Groups of the caller, in the order in which they were added.
  std::vector<PlannedGroup> groups;
  std::vector<VirtualGroup> virtual_groups;  ///< see merge()
  std::vector<std::vector<Block>> blocks;    ///< blocks of each virtual group, by member and index

  const PlannedParameter& parameter(const Member& member) const {
    return groups[member.group].parameters[member.parameter];
  }

  /// The parameter of a block of virtual group `v`.
  const PlannedParameter& parameter(int v, const Block& block) const {
    return parameter(virtual_groups[v].members[block.member]);
  }

  /// The box and the work of a block of virtual group `v`.
  const BlockWork& block_work(int v, const Block& block) const {
    return parameter(v, block).blocks[block.index];
  }

  bool operator==(const Plan&) const = default;
};

/// Plans the first groups. Throws std::invalid_argument, naming the parameter and the field, for
/// negative sides or works, blocks that do not cover their parameter, and numbers that leave
/// their type; and where place() throws.
Plan plan(std::vector<PlannedGroup> groups, int ranks);

/// The plan with groups added. Every block of `before` keeps its owner and phase; new blocks are
/// placed around them. Throws like plan().
Plan extend(Plan before, std::vector<PlannedGroup> groups);

/// The work of each rank over all virtual groups.
std::vector<Work> loads(const Plan& plan);

/// How level the refreshes of one interval are.
struct RefreshBalance {
  std::int64_t interval = 1;
  std::int64_t all = 0;      ///< work of all ranks in all steps of the interval
  std::int64_t largest = 0;  ///< of one rank in one step
  int rank = 0;              ///< that rank
  std::int64_t bound = 0;    ///< see refresh_bound()
  std::int64_t in_turn = 0;  ///< the largest work of a rank in a step, summed over the steps
  std::int64_t at_once = 0;  ///< the largest work of a rank in all steps together
};

/// By interval; only intervals with work.
std::vector<RefreshBalance> refresh_balances(const Plan& plan);

/// The stacks of virtual group `v`, of every rank. See stack().
std::vector<std::vector<Stack>> stacks(const Plan& plan, int v);

}  // namespace shampoo::grouping
