// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/memory.h"
#include "shampoo/trace/phase.h"
#include "shampoo/trace/trace_file.h"

namespace shampoo {

/// Seconds that one phase took, on the backend.
struct PhaseTime {
  double all = 0;
  double longest = 0;
};

/// Times the phases of steps on the backend's queue, also where they are replayed, and traces them.
/// Points of the queue are recorded into what was made at construction, and read when the outcome
/// of the step is known: nothing waits, and nothing is allocated. Without `measures` it only names
/// phases for profilers.
class StepClock {
 public:
  /// `first_chunks`: the first chunk of every virtual group, and the end; there is at least one. A
  /// phase takes as long as in all chunks. Backend and trace must outlive it. `trace` may be null.
  StepClock(kernels::Memory& backend, std::span<const std::size_t> first_chunks, bool measures,
            TraceFile* trace);
  /// Traces a step that has run and was not read.
  ~StepClock();
  StepClock(const StepClock&) = delete;

  /// Begins to count time on an idle queue.
  void start() noexcept;

  // Queued, or recorded in a capture.
  void begin_step();
  void end_step();
  /// `chunk`: of all chunks of all virtual groups; phases of the step have none.
  void begin(Phase phase, std::size_t chunk);
  void end(Phase phase, std::size_t chunk) noexcept;

  /// Adds the times of the latest step, whose end the caller has waited for.
  void read(std::int64_t step, std::optional<bool> applied);

  bool measures() const { return timeline_ != nullptr; }
  /// Steps that were read since construction.
  std::int64_t steps() const { return steps_; }
  /// Of those steps, by phase_index() with virtual groups.
  std::span<const PhaseTime> times() const { return times_; }
  PhaseTime step_time() const { return step_time_; }

 private:
  std::size_t step_point() const { return 2 * lines_.size(); }
  std::size_t anchor(std::size_t i) const { return step_point() + 2 + i; }
  void mark(std::size_t point);
  void read_phases(double begin);

  kernels::Memory& backend_;
  TraceFile* trace_;
  int depth_ = 0;                   ///< of phases that are open: the outermost is timed
  std::vector<std::size_t> lines_;  ///< by phase_index() with chunks: the place in times_
  std::vector<PhaseTime> times_;
  std::vector<double> seconds_;  ///< of one step, as times_
  PhaseTime step_time_;
  std::int64_t steps_ = 0, last_step_ = 0;
  /// Null: nothing is measured. Begin and end of every phase, then of the step, then two anchors.
  std::unique_ptr<kernels::Timeline> timeline_;
  /// Anchors are marked in turn after every step, so that no two points whose distance is read are
  /// further apart than steps: distances lose precision as they grow.
  std::size_t latest_anchor_ = 0;
  double anchor_time_ = 0;  ///< of the other anchor, in seconds of the trace
};

/// The clock for the phases of one chunk; those of a whole virtual group count as its first one's.
struct ChunkClock {
  StepClock& clock;
  std::size_t chunk = 0;  ///< among all chunks of all virtual groups
};

/// Times a phase and names it for profilers while it lives.
class PhaseRange {
 public:
  PhaseRange(ChunkClock clock, Phase phase) : clock_(clock), phase_(phase) {
    clock_.clock.begin(phase_, clock_.chunk);
  }
  PhaseRange(StepClock& clock, Phase phase) : PhaseRange(ChunkClock{clock}, phase) {}
  ~PhaseRange() { clock_.clock.end(phase_, clock_.chunk); }
  PhaseRange(const PhaseRange&) = delete;

 private:
  ChunkClock clock_;
  Phase phase_;
};

}  // namespace shampoo
