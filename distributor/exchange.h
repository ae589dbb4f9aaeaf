// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "distributor/communicator.h"
#include "kernels/buffer.h"

namespace shampoo {

/// Carries every owner's segment to all ranks, in one collective.
///
/// One buffer holds the segments of all ranks, rank after rank:
///
///     | rank 0: block, block, ... | rank 1: block, ... | (empty share) | rank 3: ... |
///       ^ segment_begin(0)          ^ segment_begin(1)
///
/// The owner of a block writes it into its segment; after run() every rank, the owner too, reads
/// all blocks from here.
class Exchange {
 public:
  /// `segment_bytes` has one entry per rank, equal on all ranks. Backend and communicator must
  /// outlive the exchange. Throws std::invalid_argument where the communicator works on another
  /// kind of memory than the backend, or has another number of ranks.
  Exchange(Backend& backend, Communicator& communicator, std::vector<std::int64_t> segment_bytes);

  /// Collective, unless there is only one rank.
  void run();

  /// First byte of a rank's segment.
  std::int64_t segment_begin(int rank) const { return begins_[rank]; }
  void* data() const { return buffer_.data(); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(buffer_.bytes()); }

 private:
  Communicator& communicator_;
  std::vector<std::int64_t> counts_, begins_;
  kernels::Buffer buffer_;
};

}  // namespace shampoo
