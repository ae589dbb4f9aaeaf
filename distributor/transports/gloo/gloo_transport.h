// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "distributor/communicator.h"
#include "distributor/store/synchronized_store.h"
#include "distributor/transports/gloo/gloo_module.h"

namespace shampoo {

/// Settings that a Gloo communicator shares with its subsets.
struct GlooSettings {
  std::shared_ptr<SynchronizedStore> store;
  std::string store_server;                     ///< see GlooOptions
  std::string address;                          ///< of this host, where the listener is
  std::shared_ptr<GlooListener> listener = {};  ///< null: connect_gloo() begins to listen
  std::string host;                             ///< equal for ranks of the same host
  std::string prefix;  ///< prefix of the keys of this communicator in the store
  std::chrono::milliseconds deadline = {};  ///< of collectives
};

class FailureRegistry;

/// Collectives over connected ranks.
std::unique_ptr<CollectiveTransport> make_gloo_transport(const RankInfo& info,
                                                         GlooSettings settings,
                                                         FailureRegistry registry,
                                                         std::unique_ptr<GlooMesh> mesh);

/// Connects to the other ranks. A negative `local_rank` is replaced by the number of lower ranks
/// on the same host. Collective; throws CommunicationError by `end`, also on the others if a rank
/// cannot listen.
std::unique_ptr<Communicator> connect_gloo(RankInfo info, GlooSettings settings,
                                           std::chrono::steady_clock::time_point end);

}  // namespace shampoo
