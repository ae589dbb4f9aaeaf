// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "grouping/plan.h"

namespace shampoo::grouping {

/// What a plan does not know and its description tells.
struct Surroundings {
  std::int64_t workspace_bytes = 0;  ///< of the rank that describes
  std::int64_t header_bytes = 0;     ///< of a segment
  int names_per_group = 6;           ///< parameters of a group that are listed; the rest is counted
  /// Of what the rank computes with, and shares with all that does.
  std::int64_t scratch_bytes = 0;
  std::int64_t host_bytes = 0;  ///< of the host's memory, for copies to and from a device
  std::int64_t pool_bytes = 0;  ///< held for all of it, in use or not
};

/// The plan as tables for a person: virtual groups with their recipes, groups, parameters and
/// stacks; then the balance of the ranks, bytes of state and workspace, and the exchange with the
/// padding that segments of equal length would add. Lines end with '\n'.
std::string describe(const Plan& plan, const Surroundings& surroundings = {});

}  // namespace shampoo::grouping
