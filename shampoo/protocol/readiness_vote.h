// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "distributor/exchange.h"
#include "kernels/buffer.h"
#include "shampoo/protocol/consensus.h"

namespace shampoo {

/// What a rank says of work that it does beside training.
struct Ballot {
  bool ready = false;   ///< it has come to where all ranks are needed
  bool failed = false;  ///< with an error
  std::array<std::uint64_t, 2> numbers = {};
};

/// One small all-gather, again and again, in memory that is kept. A vote is cast and collected in
/// two calls, so that on a device nobody waits for work that was queued after it was cast.
class ReadinessVote {
 public:
  /// Both must outlive it. Throws std::bad_alloc.
  ReadinessVote(kernels::Backend& backend, Communicator& communicator);

  /// Votes can be collected only after a while.
  bool lags() const { return exchange_ && !backend_.is_immediate(); }
  bool is_cast() const { return cast_; }
  /// Queues this rank's ballot and the all-gather. Collective. `call`: see SegmentHeader::step.
  void cast(std::int64_t call, const Ballot& own);
  /// Ballots of all ranks, valid until the next call of cast(). Waits for the all-gather. Throws
  /// CommunicationError if the ranks were not at the same call.
  std::span<const Ballot> collect();

 private:
  kernels::Backend& backend_;
  Communicator& communicator_;
  kernels::HostBuffer host_;
  std::span<SegmentHeader> headers_;  ///< host_
  std::unique_ptr<kernels::Mark> mark_;
  std::vector<Ballot> ballots_;
  bool cast_ = false;
  std::optional<Exchange> exchange_;  ///< with several ranks
};

}  // namespace shampoo
