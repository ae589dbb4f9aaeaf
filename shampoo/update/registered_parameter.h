// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "grouping/blocks.h"
#include "shampoo/group.h"

namespace shampoo {

/// A parameter of the optimizer: its row is its place in the sequence of groups.
struct RegisteredParameter {
  const Group* group = nullptr;
  int group_index = 0;
  std::size_t index = 0;                  ///< index in the group
  grouping::Shape merged = {};            ///< shape with small dimensions merged
  std::vector<grouping::Box> boxes = {};  ///< boxes of its blocks, in `merged`
  std::int64_t steps = 0;                 ///< number of steps taken
  /// Sum over these steps of averaging_weight().
  double averaging_weight_sum = 0;
  Rates rates = {};             ///< of the prepared step
  bool thawed = false;          ///< frozen, and a later row is of the same parameter
  bool present = false;         ///< true if it has a gradient in the prepared step
  double averaging_weight = 0;  ///< of the prepared step; 0 where it has no gradient

  const Parameter& parameter() const { return group->parameters()[index]; }
  bool is_frozen() const { return parameter().frozen; }
  void read_rates() { rates = group->rates_of(index); }
  /// "group 0 'vectors', parameter 'bias'"
  std::string title() const { return group->title() + ", parameter '" + parameter().name + "'"; }
};

/// A block that this rank owns, in the order of the flat slots.
struct OwnedBlock {
  int parameter = 0;  ///< row of its parameter
  int index = 0;      ///< index among the blocks of the parameter
  int stack = 0;
  std::int64_t in_stack = 0;
  std::int64_t flat = 0;     ///< first element in flat slots
  std::int64_t segment = 0;  ///< first byte in the exchange buffer
  std::int64_t phase = 0;    ///< phase of the refresh schedule
  std::int64_t master = -1;  ///< first element in the masters, or -1
};

}  // namespace shampoo
