// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "distributor/communicator.h"
#include "distributor/store/store.h"

namespace shampoo {

/// Whether this build has Gloo.
bool has_gloo();

struct GlooOptions {
  /// Prefix of all keys in the store: never used before, and the same on all ranks.
  std::string prefix = {};
  /// Address or name of this host that the other ranks can reach.
  std::string host = "127.0.0.1";
  /// Of connecting, and of collectives as long as nobody sets another.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// Whose process serves the store, for messages: "rank 0 of the job". Empty: not known.
  std::string store_server = {};
};

/// Ranks that find each other by the store and talk over TCP, in host memory. Collective. The
/// communicator goes on using the store: to split, and to find out who is missing. Nobody else may
/// use this Store object, or change its deadline, from then on.
///
/// A collective has completed on this rank when it was started. Gloo applies the deadline to every
/// message that it waits for: a collective of which all messages are slow may take a multiple. A
/// rank that fails waits for a word from the others, a quarter of the deadline and from 1 to 10 s
/// (never more than the deadline), then it throws: those who said none are missing.
///
/// Throws std::invalid_argument where this build has no Gloo, naming the package and the CMake
/// option, and CommunicationError where ranks do not come before the deadline, naming them.
std::unique_ptr<Communicator> gloo_communicator(const RankInfo& standing,
                                                std::shared_ptr<Store> store,
                                                const GlooOptions& options = {});

}  // namespace shampoo
