// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "distributor/communicator.h"

namespace shampoo {

/// What a callback is told beside its buffers.
struct CallTerms {
  StreamRef stream = {};
  std::chrono::milliseconds deadline = {};  ///< the callback is expected to give up after it
};

/// Collectives that the caller brings. Each has completed, or is in order with the stream, when it
/// returns; it reports failure by an exception, which becomes a CommunicationError.
struct Collectives {
  RankInfo standing = {};
  std::string description = "the caller's own";

  /// See Communicator::all_gather(). Must be set.
  std::function<void(void* everyone, std::span<const std::int64_t> counts, const CallTerms& terms)>
      all_gather = {};
  /// all_to_all, broadcast and barrier may be empty: then all_gather does their work, with more
  /// bytes. In memory of another kind than the host's, all_to_all and barrier must be set.
  std::function<void(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                     std::span<const std::int64_t> receive_counts, const CallTerms& terms)>
      all_to_all = {};
  std::function<void(void* data, std::int64_t bytes, int root, const CallTerms& terms)> broadcast =
      {};
  std::function<void(const CallTerms& terms)> barrier = {};
  /// Unless set, split() throws std::invalid_argument. `members` are ranks in their new order;
  /// empty where this rank belongs to none, and then null is to be returned.
  std::function<std::unique_ptr<Communicator>(std::span<const int> members, int color)> split = {};
  /// Tells the other ranks; may be called on any thread. Unless set, abort() stays on this rank.
  std::function<void(std::string_view reason)> abort = {};
};

/// A communicator of the caller's collectives.
/// Throws std::invalid_argument, naming the field, for a standing that is none or a missing
/// function that must be set.
std::unique_ptr<Communicator> caller_communicator(Collectives collectives);

}  // namespace shampoo
