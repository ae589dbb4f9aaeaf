// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/own_address.h"

#include <algorithm>
#include <stdexcept>

#include "distributor/communicator.h"
#include "distributor/store/socket.h"
#include "distributor/system/network_address.h"

namespace shampoo::rendezvous {
namespace {

/// Of a numeric address.
NetworkAddress parsed(const std::string& text) { return store::resolve(text, 1).front(); }

bool is_ipv6(const std::string& text) { return text.find(':') != std::string::npos; }

/// The first of the family that is a loopback address or not; empty: there is none.
std::string find(const std::vector<std::string>& addresses, bool ipv6, bool loopback) {
  const auto found = std::ranges::find_if(addresses, [&](const std::string& address) {
    return is_ipv6(address) == ipv6 && is_loopback(parsed(address)) == loopback;
  });
  return found == addresses.end() ? std::string() : *found;
}

bool leads_out(const ProcessInfo& process) {
  return std::ranges::any_of(
      process.addresses, [](const std::string& address) { return !is_loopback(parsed(address)); });
}

}  // namespace

std::vector<std::string> addresses_towards(const std::string& host, std::uint16_t port) {
  std::vector<NetworkAddress> targets;
  try {
    targets = store::resolve(host, port);
  } catch (const CommunicationError& error) {
    throw CommunicationError("join: host " + host + ": " + error.what());
  }
  std::vector<std::string> addresses;
  for (const NetworkAddress& target : targets) {
    const std::string own = numeric_text(source_towards(target));
    const auto same_family = [&](const std::string& other) {
      return is_ipv6(other) == is_ipv6(own);
    };
    if (!own.empty() && std::ranges::none_of(addresses, same_family)) addresses.push_back(own);
  }
  if (addresses.empty())
    throw CommunicationError("join: host " + host + " cannot be reached from here");
  return addresses;
}

std::string chosen_address(const std::string& text, std::string_view source) {
  const NetworkAddress of_interface = address_of_interface(text);
  if (of_interface.size > 0) return numeric_text(of_interface);
  const std::vector<NetworkAddress> own = store::own_addresses(text, false);
  if (!own.empty()) return numeric_text(own.front());
  throw std::invalid_argument(
      "join: " + std::string(source) +
      ": must be an address, a name or a network interface of this host, got \"" + text + "\"");
}

Network choose_network(const std::vector<ProcessInfo>& processes) {
  const bool several_hosts = std::ranges::any_of(processes, leads_out);
  std::string without_ipv4, without_ipv6;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const ProcessInfo& process = processes[rank];
    if (process.addresses.empty() || (several_hosts && !leads_out(process))) continue;
    for (const bool ipv6 : {false, true})
      if (find(process.addresses, ipv6, !several_hosts).empty())
        (ipv6 ? without_ipv6 : without_ipv4) =
            "rank " + std::to_string(rank) + " on " + process.host;
  }
  if (!without_ipv4.empty() && !without_ipv6.empty())
    throw CommunicationError(without_ipv4 + " reaches the store by IPv6 only, " + without_ipv6 +
                             " by IPv4 only: choose addresses by JoinOptions::own_address");
  Network network{.is_ipv6 = !without_ipv4.empty()};
  for (const ProcessInfo& process : processes) {
    network.landmark = find(process.addresses, network.is_ipv6, false);
    if (!network.landmark.empty()) break;
  }
  return network;
}

std::string own_address(const std::vector<std::string>& addresses, const Network& network) {
  std::string own = find(addresses, network.is_ipv6, network.landmark.empty());
  if (own.empty() && !network.landmark.empty())
    own = numeric_text(source_towards(parsed(network.landmark)));
  if (own.empty())
    throw CommunicationError("join: this host has no address on the route to " +
                             (network.landmark.empty() ? "the store" : network.landmark));
  return own;
}

}  // namespace shampoo::rendezvous
