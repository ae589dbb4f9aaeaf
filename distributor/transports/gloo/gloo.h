// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "shampoo/distributor/communicator.h"
#include "shampoo/distributor/store/store.h"

namespace shampoo {

/// True if the library's module for Gloo is there.
bool has_gloo();

struct GlooOptions {
  /// Prefix of all keys in the store: not used by another communicator, equal on all ranks.
  std::string prefix = {};
  /// Address or name of this host that the other ranks can reach.
  std::string host = "127.0.0.1";
  /// For connecting, and the initial deadline of collectives.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// Process that serves the store, for messages: "rank 0 of the job". May be empty.
  std::string store_server = {};
};

/// A communicator over TCP in host memory, whose ranks find each other through the store.
/// Collective. The communicator keeps using the store, for splits and failure detection, so the
/// caller must not use this Store object or change its deadline afterwards.
///
/// Collectives complete before their call returns; a thread of the communicator watches their
/// deadline, and compares the calls of ranks that wait for more than min(1 s, deadline / 4). After
/// a failure a rank waits up to min(deadline, clamp(deadline / 4, 1 s, 10 s)) for the others to
/// respond, then throws; silent ranks are reported as missing. Connecting and splitting include
/// that time in the deadline.
///
/// Throws std::invalid_argument for invalid options and where has_gloo() is false, and
/// CommunicationError, naming the ranks, if some do not connect before the deadline.
std::unique_ptr<Communicator> gloo_communicator(const RankInfo& info, std::shared_ptr<Store> store,
                                                const GlooOptions& options = {});

}  // namespace shampoo
