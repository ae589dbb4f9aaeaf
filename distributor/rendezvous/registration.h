// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "distributor/rendezvous/store_gather.h"
#include "distributor/store/store.h"
#include "distributor/system/process_identity.h"

namespace shampoo::rendezvous {

/// A process of the job; the record that it registers under its rank.
struct ProcessInfo {
  std::string host = {};
  std::vector<std::string> addresses = {};  ///< at which other ranks may reach it
  ProcessIdentity identity = {};
  int restarts = 0;        ///< of its workers, as its launcher counts them
  std::uint64_t call = 0;  ///< random number that tells its calls of join() apart
};

/// Record of one process about the job. All ranks must agree on size, library, transport and build.
struct Registration {
  std::string library = {};  ///< version of the library
  int rank = 0, size = 1;
  std::string transport = {};
  std::string build = {};  ///< free text
  ProcessInfo process = {};
};

template <typename Visitor>
void for_each_field(Visitor&& visit, ProcessInfo& info) {
  visit("host", info.host);
  visit("addresses", info.addresses);
  visit("identity", info.identity);
  visit("restarts", info.restarts);
  visit("call", info.call);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, Registration& registration) {
  visit("library", registration.library);
  visit("rank", registration.rank);
  visit("size", registration.size);
  visit("transport", registration.transport);
  visit("build", registration.build);
  visit("process", registration.process);
}

struct RegistrationOptions {
  std::string prefix = {};   ///< prefix of all keys: that of the job
  std::string failure = {};  ///< reason why this process cannot take part; empty: it can
  /// Makes of the processes by rank what all ranks need of them. Called on one rank; if it throws a
  /// std::exception, there is no job.
  std::function<std::string(const std::vector<ProcessInfo>&)> summarize = {};
  StoreGather::Clock::time_point end = {};
  /// True if this process must not end before the others have read an error.
  bool serves_store = false;
};

struct RegistrationResult {
  std::string prefix = {};  ///< prefix of keys, not used before, equal on all ranks
  std::string error = {};   ///< reason why there is no job; empty: there is one
  /// Ranks that did not register in time; empty if there is a job.
  std::vector<int> missing_ranks = {};
  std::string summary = {};  ///< what RegistrationOptions::summarize returned
};

/// Registers this process as its rank and waits for all ranks. Collective.
///
///     <prefix>/<n>/terms    Registration of the first process to come, with which the others agree
///     <prefix>/<n>/...      StoreGather of ProcessInfo
///
/// with n = 0, 1, ... for earlier calls of the same processes and for earlier attempts of the job.
/// A rank is taken by an atomic set-if-absent, so a second process with the same rank is found at
/// once. Who finds a problem publishes it as the result for all ranks.
///
/// An attempt is over for a process that finds its rank taken by one with fewer restarts, or by one
/// that has ended on its machine; for one whose rank is free by the process of the terms, whose
/// restarts count where there is a result, and whose end where there is none. It says so to those
/// that wait, and all go on with the next n. Counts of restarts alone do not tell attempts apart:
/// torchrun counts those of a node by its own failures.
///
/// Throws CommunicationError only if the store fails. Repeating the call is then harmless.
RegistrationResult register_rank(Store& store, const Registration& self,
                                 const RegistrationOptions& options);

}  // namespace shampoo::rendezvous
