// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace shampoo::rendezvous {

/// The numeric address of this host on the route to another one; sends nothing. If that is a
/// loopback address and the job spans `several_hosts`, this host's first other address, if it has
/// one: hosts tend to resolve their own name to 127.0.1.1. Throws CommunicationError, naming the
/// host, if it cannot be resolved or reached.
std::string own_address_towards(const std::string& host, std::uint16_t port, bool several_hosts);

}  // namespace shampoo::rendezvous
