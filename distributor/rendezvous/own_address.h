// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace shampoo::joining {

/// The numeric address from which this host would talk to the other one; sends nothing. Where that
/// is a loopback address and the job spans `several_hosts`, the first other address of this host,
/// if it has one: hosts tend to look up their own name as 127.0.1.1.
/// Throws CommunicationError, naming the host, where it cannot be looked up or reached.
std::string own_address_towards(const std::string& host, std::uint16_t port, bool several_hosts);

}  // namespace shampoo::joining
