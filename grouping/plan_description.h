// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "grouping/plan.h"

namespace shampoo::grouping {

/// Facts beyond the plan that its description reports. Bytes are those of the rank that describes.
struct DescriptionContext {
  std::int64_t workspace_bytes = 0;  ///< workspace of the optimizer
  std::int64_t header_bytes = 0;     ///< header of a segment
  std::int64_t scratch_bytes = 0;    ///< scratch memory of the backend, shared by all that use it
  std::int64_t host_bytes = 0;       ///< host memory for copies to and from a device
  std::int64_t pool_bytes = 0;       ///< reserved by the backend, in use or not
  /// Hash of the plan, which ranks compare and checkpoints record.
  std::uint64_t plan_hash = 0;
};

/// The plan as tables for a person: virtual groups with their recipes, groups, parameters and
/// stacks; then the balance of the ranks, bytes of state and workspace, and the exchange with the
/// padding that segments of equal length add, or would. Lines end with '\n'.
std::string describe(const Plan& plan, const DescriptionContext& context = {});

}  // namespace shampoo::grouping
