// SPDX-License-Identifier: Apache-2.0
#include "grouping/merge.h"

#include <map>
#include <string_view>

namespace shampoo::grouping {

std::vector<VirtualGroup> merge(std::span<const PlannedGroup> groups) {
  std::vector<VirtualGroup> merged;
  std::map<std::string_view, std::size_t> known;
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
    const auto [place, is_new] = known.try_emplace(groups[g].recipe, merged.size());
    if (is_new) merged.push_back({groups[g].recipe, {}});
    for (int p = 0; p < static_cast<int>(groups[g].parameters.size()); ++p)
      merged[place->second].members.push_back({g, p});
  }
  return merged;
}

}  // namespace shampoo::grouping
