// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/join_gloo.h"

#include "distributor/rendezvous/own_address.h"
#include "distributor/rendezvous/rendezvous.h"
#include "distributor/transports/gloo/gloo_listener.h"

namespace shampoo::joining {
namespace {

std::string own_address(const Detected& detected, const JoinOptions& options) {
  if (!options.own_address.empty()) return options.own_address;
  if (detected.size == 1) return "127.0.0.1";
  // Where ranks meet at a loopback address they are all here.
  const bool loopback =
      detected.host == "localhost" || detected.host == "::1" || detected.host.starts_with("127.");
  const bool several_hosts = !loopback && detected.local_size != detected.size;
  return own_address_towards(detected.host, detected.port, several_hosts);
}

}  // namespace

std::unique_ptr<Communicator> join_gloo(const Detected& detected, const JoinOptions& options) {
  std::string address;
  std::shared_ptr<gloo::transport::Device> device;
  const Meeting meeting = meet(detected, options, [&] {
    address = own_address(detected, options);
    device = listen_gloo(address);
  });
  return gloo_communicator(
      {.rank = detected.rank, .size = detected.size, .local_rank = detected.local_rank},
      meeting.store, device,
      {.prefix = "/shampoo/gloo/" + meeting.generation + "/",
       .host = address,
       .deadline = meeting.left,
       .store_server = detected.agent_hosts_store ? "" : "rank 0 of the job"});
}

}  // namespace shampoo::joining
