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

/// Failure detection through the key-value store: which ranks of a communicator failed, aborted,
/// stopped responding or are in another call. Requests per rank do not depend on the number of
/// ranks.
///
///     <prefix>/barrier/...    StoreGather of barrier(); removed when all ranks have read it
///     <prefix>/failures/...   StoreGather of diagnose(): what each rank failed with, and where
///     <prefix>/abort          why a rank called abort(), or what the first rank failed with
///     <prefix>/call/<ticket>  CallRecord of the first rank that waits long in this collective
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

  /// Why a rank aborted or failed; empty if none has, or if the store does not reply within 250 ms.
  std::string remote_abort_reason() noexcept;
  /// Tells all ranks. `deadline` is that of collectives, see failure_detection_timeout().
  void publish_abort(std::string_view reason, std::chrono::milliseconds deadline) noexcept;
  /// Publishes what this rank failed with, and waits for the others to do so. Ranks that have not
  /// within failure_detection_timeout(deadline) are missing in the returned error. If all have, and
  /// not all in the collective `call`, the error says who was where. Throws std::bad_alloc only.
  CommunicationError diagnose(const std::string& failure, std::chrono::milliseconds deadline,
                              const CollectiveCall& call = {});

  /// Publishes that this rank waits in `call`, unless another rank has said so for the collective
  /// of this number. Returns describe_mismatch() of the two: empty if they match, or if the store
  /// does not reply within `longest`.
  std::string enter_call(const CollectiveCall& call, std::chrono::milliseconds longest) noexcept;
  /// Removes what the last enter_call() published, when the collective is over.
  void leave_call() noexcept;

 private:
  std::string abort_key() const { return prefix_ + "/abort"; }
  std::string failures_prefix() const { return prefix_ + "/failures"; }
  std::string call_key(std::uint64_t ticket) const {
    return prefix_ + "/call/" + std::to_string(ticket);
  }
  CommunicationError find_missing(const std::string& failure, const CollectiveCall& call,
                                  BoundedStore::Clock::time_point end);

  std::shared_ptr<SynchronizedStore> store_;
  std::string prefix_, server_;
  int rank_, size_;
  std::uint64_t entered_ = 0;  ///< ticket of the call that this rank has published; 0: none
};

}  // namespace shampoo
