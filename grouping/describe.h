// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "grouping/plan.h"

namespace shampoo::grouping {

/// What a plan does not know and its description tells.
struct Surroundings {
  std::int64_t workspace_bytes = 0;  ///< of the rank that needs most
  std::int64_t header_bytes = 0;     ///< of a segment
  int names_per_group = 6;           ///< parameters of a group that are listed; the rest is counted
};

/// The plan as tables for a person: virtual groups with their recipes, groups, parameters and
/// stacks; then the balance of the ranks, bytes of state and workspace, and the exchange with the
/// padding that segments of equal length would add. Lines end with '\n'.
std::string describe(const Plan& plan, const Surroundings& surroundings = {});

}  // namespace shampoo::grouping
