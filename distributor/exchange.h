// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/segment_header.h"
#include "kernels/buffer.h"

namespace shampoo {

/// Carries every owner's segment to all ranks, in one collective.
///
/// One buffer holds the segments of all ranks, rank after rank, each behind its header:
///
///     | header 0, block, block, ... | header 1, block, ... | header 2 | header 3, block, ... |
///
/// The owner of a block writes it into its segment; after run() every rank, the owner too, reads
/// all blocks from here.
class Exchange {
 public:
  /// `segment_bytes` has one entry per rank, equal on all ranks, each with room for a header.
  /// Backend and communicator must outlive the exchange. Throws std::invalid_argument where the
  /// communicator works on another kind of memory than the backend, or has another number of ranks.
  Exchange(Backend& backend, Communicator& communicator, std::vector<std::int64_t> segment_bytes);

  /// The header of this rank's segment.
  void write(const Header& header);
  /// The same from the backend's memory, with the first `verdict_bytes` of its verdict from there.
  void write(const Header* header, const kernels::ScanResult* verdict, std::size_t verdict_bytes);
  /// Collective, unless there is only one rank. Throws CommunicationError.
  void run();
  /// The headers of all ranks; waits. Valid until the next call. Throws CommunicationError where
  /// the exchange failed.
  std::span<const Header> headers();
  /// gathered <- the headers of all ranks; *proceed <- 0 unless all ranks proceed and their headers
  /// agree, with their verdicts or without. Queued; all [backend].
  void gate(bool compares_verdicts, Header* gathered, std::int32_t* proceed);

  void* data() const { return buffer_->data(); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(buffer_->bytes()); }

 private:
  char* segment(std::size_t rank) const;

  Backend& backend_;
  Communicator& communicator_;
  std::vector<std::int64_t> counts_, begins_;
  std::shared_ptr<kernels::Buffer> buffer_;
  kernels::Buffer begins_there_;  ///< begins_ [backend]
  std::vector<Header> headers_;
  Header own_;
  kernels::Settled settled_;
};

}  // namespace shampoo
