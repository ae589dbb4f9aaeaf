// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <span>
#include <string>
#include <vector>

#include "grouping/planned_group.h"

namespace shampoo::grouping {

/// A parameter, by its place in the caller's groups.
struct Member {
  int group = 0;
  int parameter = 0;

  auto operator<=>(const Member&) const = default;
};

/// All parameters of one recipe, whichever groups the caller put them in. They are planned,
/// computed and exchanged together.
struct VirtualGroup {
  std::string recipe;
  std::vector<Member> members;  ///< parameters in the caller's order

  bool operator==(const VirtualGroup&) const = default;
};

/// Joins the groups whose recipes are equal byte for byte. Virtual groups come in the order in
/// which their recipes first appear, so that more groups only append: to the list and to its
/// members. An empty group makes its virtual group known and adds no member.
std::vector<VirtualGroup> merge(std::span<const PlannedGroup> groups);

}  // namespace shampoo::grouping
