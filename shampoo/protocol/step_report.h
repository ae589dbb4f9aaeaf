// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distributor/segment_header.h"
#include "kernels/buffer.h"

namespace shampoo {

/// What the host learns of a step. The step writes it in the backend's memory, and copies it to the
/// host's at its end.
class StepReport {
 public:
  /// Where ranks show each other their headers.
  enum class Round : std::uint8_t { exchange, vote };

  StepReport(Backend& backend, int ranks, bool votes);

  // [backend]
  kernels::ScanResult* verdict() const { return &there()->verdict; }
  kernels::ReplayCounter* runs() const { return &there()->runs; }
  SegmentHeader* headers(Round round) const;

  /// Queues the copy to the host.
  void send();
  /// The same for a captured step, whose runs the host then sees by arrived().
  void send_captured();
  /// Waits for the last send(), which is long past when the next step is prepared.
  void wait() { mark_->wait(); }

  // On the host.
  const kernels::ScanResult& seen_verdict() const { return here()->verdict; }
  const kernels::ReplayCounter& seen_runs() const { return here()->runs; }
  std::span<const SegmentHeader> seen_headers(Round round) const;
  /// Runs up to the last captured step of which everything has been copied. Does not wait.
  std::int64_t arrived() const;

  std::int64_t bytes() const { return static_cast<std::int64_t>(there_.bytes()); }

 private:
  struct alignas(64) Start {
    kernels::ScanResult verdict;
    kernels::ReplayCounter runs;
  };

  Start* there() const { return static_cast<Start*>(there_.data()); }
  Start* here() const { return static_cast<Start*>(here_.data()); }
  std::size_t offset(Round round) const;

  Backend& backend_;
  std::size_t ranks_;
  kernels::Buffer there_;
  kernels::HostBuffer here_, arrived_;
  std::unique_ptr<kernels::Mark> mark_;
  kernels::Settled settled_;
};

}  // namespace shampoo
