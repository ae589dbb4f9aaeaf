// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributor/rendezvous/detection.h"
#include "distributor/rendezvous/registration.h"
#include "distributor/store/store.h"

namespace shampoo::rendezvous {

/// The ranks of a job, which all have registered.
struct Rendezvous {
  std::shared_ptr<Store> store;
  std::string prefix;              ///< prefix of keys, not used before, equal on all ranks
  std::string address;             ///< of this rank, at which the others reach it; may be empty
  std::chrono::milliseconds left;  ///< time left for connecting, of options.connect_deadline
};

/// Registers this rank at the store at detected.host and port and waits for the others, within
/// options.connect_deadline. Who serves the store: see open_store(). Collective.
///
/// `prepare` is called when the store has been reached; it returns the addresses at which others
/// may reach this rank. If it throws, this rank rethrows and the others throw a CommunicationError
/// with the message. Throws as join() does.
Rendezvous run_rendezvous(const Detected& detected, const JoinOptions& options,
                          const std::string& transport,
                          const std::function<std::vector<std::string>()>& prepare);

}  // namespace shampoo::rendezvous
