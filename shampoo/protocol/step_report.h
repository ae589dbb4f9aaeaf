// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distributor/segment_header.h"
#include "kernels/buffer.h"

namespace shampoo {

/// Report of a step to the host. The step writes it in backend memory and copies it to host memory
/// at its end.
class StepReport {
 public:
  /// Collective in which ranks exchange their headers.
  enum class Round : std::uint8_t { exchange, vote };

  StepReport(kernels::Backend& backend, int ranks, bool votes);

  // [backend]
  kernels::StepRecords* records() const {
    return static_cast<kernels::StepRecords*>(device_.data());
  }
  kernels::ScanResult* scan() const { return &records()->scan; }
  kernels::NonFiniteDirections* directions() const { return &records()->directions; }
  SegmentHeader* headers(Round round) const;

  /// Queues the copy to the host.
  void send();
  /// The same for a captured step, whose replays completed_runs() counts.
  void send_captured();
  /// Waits for the last send(), which has usually finished when the next step is prepared.
  void wait() { mark_->wait(); }

  // [host] copies of the last report
  const kernels::ScanResult& seen_scan() const { return on_host()->scan; }
  const kernels::ReplayCounter& seen_runs() const { return on_host()->runs; }
  const kernels::NonFiniteDirections& seen_directions() const { return on_host()->directions; }
  const kernels::GradientState& seen_gradients() const { return on_host()->gradients; }
  /// Sets them on the backend, too. Waits.
  void set_gradients(const kernels::GradientState& state);
  std::span<const SegmentHeader> seen_headers(Round round) const;
  /// Number of runs up to the last captured step whose report was copied. Does not wait.
  std::int64_t completed_runs() const;

  std::int64_t bytes() const { return static_cast<std::int64_t>(device_.bytes()); }

 private:
  kernels::StepRecords* on_host() const { return static_cast<kernels::StepRecords*>(host_.data()); }
  std::size_t offset(Round round) const;

  kernels::Backend& backend_;
  std::size_t ranks_;
  kernels::Buffer device_;
  kernels::HostBuffer host_, completed_runs_;
  std::unique_ptr<kernels::Mark> mark_;
  kernels::Settled settled_;
};

}  // namespace shampoo
