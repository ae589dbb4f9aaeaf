// SPDX-License-Identifier: Apache-2.0
#include "distributor/system/host_name.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "grouping/hash.h"

namespace shampoo {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::uint64_t host_id(const std::string& host) { return grouping::hash(host); }

int local_rank_of(int rank, std::span<const std::uint64_t> hosts) {
  const auto self = hosts.begin() + rank;
  return static_cast<int>(std::count(hosts.begin(), self, *self));
}

}  // namespace shampoo
