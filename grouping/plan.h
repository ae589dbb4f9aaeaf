// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "grouping/merge.h"
#include "grouping/placement.h"
#include "grouping/planned_group.h"
#include "grouping/stack.h"

namespace shampoo::grouping {

/// A block of a virtual group, and the rank that owns it.
struct Block {
  int member = 0;  ///< place in the virtual group's members
  int index = 0;   ///< place in the parameter's blocks
  int owner = 0;

  bool operator==(const Block&) const = default;
};

/// Who does what: a pure function of the sequence of groups added and the number of ranks, equal
/// on all ranks. Virtual groups and their blocks keep their places when groups are added.
struct Plan {
  int ranks = 1;
  int padding_percent = 4;  ///< see place()
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
Plan plan(std::vector<PlannedGroup> groups, int ranks, int padding_percent = 4);

/// The plan with groups added. Every block of `before` keeps its owner; new blocks are placed
/// around them. Throws like plan().
Plan extend(Plan before, std::vector<PlannedGroup> groups);

/// The work of each rank over all virtual groups.
std::vector<Work> loads(const Plan& plan);

/// The stacks of virtual group `v`, of every rank. See stack().
std::vector<std::vector<Stack>> stacks(const Plan& plan, int v);

}  // namespace shampoo::grouping
