// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/rendezvous/registration.h"

namespace shampoo::rendezvous {

/// The numeric addresses of this host on the routes to another one, at most one of each family;
/// sends nothing. Throws CommunicationError, naming the host, if it cannot be resolved or reached.
std::vector<std::string> addresses_towards(const std::string& host, std::uint16_t port);

/// The numeric address that a user means by an address, a name or a network interface of this host.
/// Throws std::invalid_argument, naming the source of the text, if it is none of them.
std::string chosen_address(const std::string& text, std::string_view source);

/// What ranks need to know to choose addresses at which all reach each other.
struct Network {
  bool is_ipv6 = false;
  /// Address of a rank that reaches the store from another host; empty if all are on its host.
  std::string landmark = {};
};

template <typename Visitor>
void for_each_field(Visitor&& visit, Network& network) {
  visit("is_ipv6", network.is_ipv6);
  visit("landmark", network.landmark);
}

/// IPv4 unless a rank has no such address. Throws CommunicationError, naming ranks, if there is no
/// family that all have.
Network choose_network(const std::vector<ProcessInfo>& processes);

/// The one of this rank's addresses_towards() the store that the others can reach. On the store's
/// own host, whose name tends to be that of a loopback address, that on the route to the landmark.
/// Throws CommunicationError if there is none.
std::string own_address(const std::vector<std::string>& addresses, const Network& network);

}  // namespace shampoo::rendezvous
