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

/// Sends every owner's segment to all ranks in one collective. One buffer holds the segments of
/// all ranks, back to back, each behind its header:
///
///     | header 0, block, block, ... | header 1, block, ... | header 2 | header 3, block, ... |
///
/// The owner of a block writes it into its own segment; after run() every rank, the owner too,
/// reads all blocks from the buffer.
class Exchange {
 public:
  /// `segment_bytes` has one entry per rank, equal on all ranks, each with room for a header.
  /// Backend and communicator must outlive the exchange. Throws std::invalid_argument if they use
  /// different memory spaces or the number of entries is not the number of ranks. The buffer has
  /// at least `capacity` bytes.
  Exchange(kernels::Backend& backend, Communicator& communicator,
           std::vector<std::int64_t> segment_bytes, std::int64_t capacity = 0);
  /// Other segments in the buffer of `other`, which must have room for them: each run overwrites
  /// what the last one left. Throws std::invalid_argument as above, and if there is no room.
  Exchange(const Exchange& other, std::vector<std::int64_t> segment_bytes);

  /// Writes the header of this rank's segment. Queued.
  void write(const SegmentHeader& header);
  /// The same from [backend] memory; its scan comes from `scan` unless that is null. Queued.
  void write(const SegmentHeader* header, const kernels::ScanResult* scan);
  /// SegmentHeader::non_finite_direction from [backend] memory. Queued.
  void write_direction(const std::int32_t* non_finite_direction);
  /// Collective if there are several ranks. Throws CommunicationError.
  void run();
  /// Headers of all ranks, valid until the next call. Blocks. Throws CommunicationError if the
  /// exchange failed.
  std::span<const SegmentHeader> headers();
  /// to <- headers of all ranks, one after the other. Queued; `to` is host memory.
  void download_headers(SegmentHeader* to);
  /// gathered <- headers of all ranks; *proceed <- 0 unless all ranks proceed and their headers
  /// agree. Queued; all [backend].
  void gate(SegmentHeader* gathered, std::int32_t* proceed);

  void* data() const { return buffer_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t lay_out();
  void upload_begins();
  char* segment(std::size_t rank) const;

  kernels::Backend& backend_;
  Communicator& communicator_;
  std::vector<std::int64_t> counts_, begins_;
  std::int64_t bytes_;
  std::shared_ptr<void> buffer_;   ///< the communicator's memory, or the backend's
  kernels::Buffer device_begins_;  ///< begins_ [backend]
  std::vector<SegmentHeader> headers_;
  SegmentHeader own_;
  kernels::Settled settled_;
};

}  // namespace shampoo
