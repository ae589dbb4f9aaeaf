// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "distributor/error.h"
#include "distributor/store/synchronized_store.h"

namespace shampoo {

/// Where the ranks of a communicator learn from each other who failed, by way of the store:
///
///     <prefix>/arrived/<rank>   the host of a rank that has come
///     <prefix>/fault/<rank>     what the rank met: it is alive, though it has failed
///     <prefix>/abort            why some rank gave up on purpose
class FailureRegistry {
 public:
  /// `server` says for messages who serves the store, and may be empty.
  FailureRegistry(std::shared_ptr<LockedStore> store, std::string prefix, std::string server,
                  int rank, int size)
      : store_(std::move(store)),
        prefix_(std::move(prefix)),
        server_(std::move(server)),
        rank_(rank),
        size_(size) {}

  /// Announces this rank and waits for all others. Throws CommunicationError, naming those who did
  /// not come.
  void arrive(const std::string& host, std::chrono::milliseconds deadline);
  /// Ranks before this one that announced the same host. After arrive().
  int ranks_before_on(const std::string& host);

  /// Of a sub-set of these ranks, in which this rank has another number.
  FailureRegistry part(const std::string& suffix, int rank, int size) const {
    return {store_, prefix_ + suffix, server_, rank, size};
  }

  /// Why some rank gave up on purpose; empty where none has, or the store does not answer.
  std::string heard() noexcept;
  /// Tells all ranks. `deadline` is that of collectives, see grace_of().
  void post_abort(std::string_view reason, std::chrono::milliseconds deadline) noexcept;
  /// Posts what this rank met, and finds out whom it is about: ranks that post nothing within the
  /// grace of the deadline are missing. Takes hardly longer, whatever the store does.
  CommunicationError judge(const std::string& fault, std::chrono::milliseconds deadline) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  std::string key(const char* kind, int rank) const;
  std::string abort_key() const { return prefix_ + "/abort"; }
  CommunicationError find_missing(const std::string& fault, Clock::time_point end);
  /// Asks the store, which has to answer until `end`, or at once.
  template <typename Use>
  auto ask(Clock::time_point end, const Use& use);

  std::shared_ptr<LockedStore> store_;
  std::string prefix_, server_;
  int rank_, size_;
};

}  // namespace shampoo
