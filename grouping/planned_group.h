// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grouping/blocks.h"
#include "grouping/placement.h"

namespace shampoo::grouping {

/// One block of a parameter: its box in the merged tensor, and the work of its owner.
struct BlockWork {
  Box box;
  Work work;
  std::int64_t refresh = 0;  ///< see BlockRefresh::work

  bool operator==(const BlockWork&) const = default;
};

/// A parameter as far as plans know it.
struct PlannedParameter {
  std::string name;
  Shape shape;                     ///< shape after merging small dimensions
  std::int64_t element_bytes = 4;  ///< bytes of one value in the exchange, at least 1
  std::vector<BlockWork> blocks;   ///< blocks that cover the shape, each element once

  bool operator==(const PlannedParameter&) const = default;
};

/// The caller's list of parameters, with the canonical text of its recipe: equal texts are equal
/// recipes.
struct PlannedGroup {
  std::string recipe;
  std::vector<PlannedParameter> parameters;
  std::int64_t interval = 1;  ///< steps over which refreshes are spread, at least 1

  bool operator==(const PlannedGroup&) const = default;
};

}  // namespace shampoo::grouping
