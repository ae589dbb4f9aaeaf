// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace shampoo {

/// Result of gethostname(); "unknown" if it fails.
std::string host_name();

/// A hash of the host's name, equal for all its ranks, whatever their builds.
std::uint64_t host_id(const std::string& host = host_name());
/// Number of lower ranks on the rank's host. `hosts`: host_id() of every rank.
int local_rank_of(int rank, std::span<const std::uint64_t> hosts);

}  // namespace shampoo
