// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/store/synchronized_store.h"

namespace shampoo {

/// Failure detection through the key-value store: which ranks of a communicator failed, aborted or
/// stopped responding. Requests per rank do not depend on the number of ranks.
///
///     <prefix>/barrier/...   StoreGather of barrier(); removed when all ranks have read it
///     <prefix>/failures/...  StoreGather of diagnose(): what each rank failed with
///     <prefix>/abort         why a rank called abort()
class FailureRegistry {
 public:
  /// `server` names the process that serves the store in messages, and may be empty.
  FailureRegistry(std::shared_ptr<SynchronizedStore> store, std::string prefix, std::string server,
                  int rank, int size)
      : store_(std::move(store)),
        prefix_(std::move(prefix)),
        server_(std::move(server)),
        rank_(rank),
        size_(size) {}

  /// Waits for all ranks. Collective, once. Throws CommunicationError, naming the ranks that did
  /// not arrive.
  void barrier(std::chrono::milliseconds deadline);

  /// The registry of a subset of these ranks, in which this rank has another number.
  FailureRegistry part(const std::string& suffix, int rank, int size) const {
    return {store_, prefix_ + suffix, server_, rank, size};
  }

  /// Why a rank aborted; empty if none has, or if the store does not reply within 250 ms.
  std::string remote_abort_reason() noexcept;
  /// Tells all ranks. `deadline` is that of collectives, see failure_detection_timeout().
  void publish_abort(std::string_view reason, std::chrono::milliseconds deadline) noexcept;
  /// Publishes what this rank failed with, and waits for the others to do so. Ranks that have not
  /// within failure_detection_timeout(deadline) are missing in the returned error.
  CommunicationError diagnose(const std::string& failure,
                              std::chrono::milliseconds deadline) noexcept;

 private:
  std::string abort_key() const { return prefix_ + "/abort"; }
  std::string failures_prefix() const { return prefix_ + "/failures"; }
  CommunicationError find_missing(const std::string& failure, BoundedStore::Clock::time_point end);

  std::shared_ptr<SynchronizedStore> store_;
  std::string prefix_, server_;
  int rank_, size_;
};

}  // namespace shampoo
