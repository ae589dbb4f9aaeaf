// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "distributor/communicator.h"

namespace shampoo {

/// Arguments of every callback, in addition to the buffers.
struct CallContext {
  StreamRef stream = {};
  std::chrono::milliseconds deadline = {};  ///< the callback should throw after this duration
};

/// User-provided collectives. Each has completed, or is ordered with the stream, when it returns,
/// and reports failure by an exception, which becomes a CommunicationError. See Communicator for
/// the meaning of the buffers and counts.
struct Collectives {
  RankInfo rank_info = {};
  std::string description = "user-provided collectives";

  /// Required.
  std::function<void(void* data, Communicator::Counts counts, const CallContext& context)>
      all_gather = {};
  /// all_to_all, broadcast and barrier are emulated with all_gather if empty, at the cost of more
  /// bytes. In CUDA memory, all_to_all and barrier are required.
  std::function<void(const void* send, Communicator::Counts send_counts, void* receive,
                     Communicator::Counts receive_counts, const CallContext& context)>
      all_to_all = {};
  std::function<void(void* data, std::int64_t bytes, int root, const CallContext& context)>
      broadcast = {};
  std::function<void(const CallContext& context)> barrier = {};
  /// If empty, split() throws std::invalid_argument. `members` are ranks in their new order; if
  /// empty, this rank has no color, and the callback must return null.
  std::function<std::unique_ptr<Communicator>(std::span<const int> members, int color)> split = {};
  /// Notifies the other ranks; may be called on any thread. If empty, abort() affects this rank
  /// only.
  std::function<void(std::string_view reason)> abort = {};
};

/// Throws std::invalid_argument, naming the field, for an invalid rank_info or a missing callback.
std::unique_ptr<Communicator> user_communicator(Collectives collectives);

}  // namespace shampoo
