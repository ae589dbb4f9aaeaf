// SPDX-License-Identifier: Apache-2.0
#include "shampoo/trace/step_clock.h"

#include <algorithm>

namespace shampoo {

namespace {

void add(PhaseTime& time, double seconds) {
  time.all += seconds;
  time.longest = std::max(time.longest, seconds);
}

}  // namespace

StepClock::StepClock(kernels::Memory& backend, std::span<const std::size_t> first_chunks,
                     bool measures, TraceFile* trace)
    : backend_(backend), trace_(trace) {
  for (std::size_t i = 0; i < step_phases; ++i) lines_.push_back(i);
  for (std::size_t v = 0; v + 1 < first_chunks.size(); ++v)
    for (std::size_t chunk = first_chunks[v]; chunk < first_chunks[v + 1]; ++chunk)
      for (std::size_t i = 0; i < group_phases; ++i)
        lines_.push_back(step_phases + v * group_phases + i);
  const std::size_t virtual_groups = first_chunks.size() - 1;
  times_.resize(step_phases + virtual_groups * group_phases);
  seconds_.resize(times_.size());
  if (measures) timeline_ = backend.make_timeline(anchor(2));
  if (measures && trace != nullptr) trace->reserve(virtual_groups, lines_.size());
}

StepClock::~StepClock() {
  if (!timeline_ || !trace_) return;
  try {
    backend_.synchronize();
    read(last_step_ + 1, std::nullopt);
  } catch (...) {  // the device failed: the trace lacks the last step
  }
}

void StepClock::start() noexcept {
  if (!timeline_) return;
  try {
    for (std::size_t i = 0; i < 2; ++i) mark(anchor(i));
  } catch (...) {  // the device failed, as the next call finds
  }
  latest_anchor_ = 1;
  if (trace_ != nullptr) anchor_time_ = trace_->start();
}

void StepClock::mark(std::size_t point) {
  if (timeline_) timeline_->mark(point);
}

void StepClock::begin_step() { mark(step_point()); }
void StepClock::end_step() { mark(step_point() + 1); }

void StepClock::begin(Phase phase, std::size_t chunk) {
  if (depth_ == 0) mark(2 * phase_index(phase, chunk));
  ++depth_;
  backend_.begin_range(name_of(phase));
}

void StepClock::end(Phase phase, std::size_t chunk) noexcept {
  backend_.end_range();
  if (--depth_ > 0) return;
  try {
    mark(2 * phase_index(phase, chunk) + 1);
  } catch (...) {  // the device failed, as the next call finds
  }
}

void StepClock::read(std::int64_t step, std::optional<bool> applied) {
  if (!timeline_) return;
  last_step_ = step;
  const std::size_t first = step_point();
  anchor_time_ +=
      timeline_->seconds(anchor(1 - latest_anchor_), anchor(latest_anchor_)).value_or(0);
  const std::optional<double> begin = timeline_->seconds(anchor(latest_anchor_), first);
  const std::optional<double> duration = timeline_->seconds(first, first + 1);
  // A step that begins before the anchor has been read, and one that failed has no end.
  if (begin && *begin >= 0 && duration && *duration >= 0) {
    ++steps_;
    add(step_time_, *duration);
    if (trace_ != nullptr) trace_->begin(step, applied, anchor_time_ + *begin, *duration);
    read_phases(anchor_time_ + *begin);
    if (trace_ != nullptr) trace_->end();
  }
  latest_anchor_ = 1 - latest_anchor_;
  mark(anchor(latest_anchor_));
}

void StepClock::read_phases(double begin) {
  const std::size_t first = step_point();
  std::ranges::fill(seconds_, 0.0);
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const std::optional<double> from = timeline_->seconds(first, 2 * i);
    const std::optional<double> to = timeline_->seconds(first, 2 * i + 1);
    // Otherwise they are those of an earlier step: this one did not have the phase.
    if (!from || !to || *from < 0 || *to < *from) continue;
    seconds_[lines_[i]] += *to - *from;
    if (trace_ != nullptr) trace_->add(lines_[i], begin + *from, *to - *from);
  }
  for (std::size_t i = 0; i < times_.size(); ++i) add(times_[i], seconds_[i]);
}

}  // namespace shampoo
