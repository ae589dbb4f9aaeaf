// SPDX-License-Identifier: Apache-2.0
#include "shampoo/protocol/step_report.h"

#include <atomic>

namespace shampoo {

StepReport::StepReport(kernels::Backend& backend, int ranks, bool votes)
    : backend_(backend),
      ranks_(ranks == 1 ? 0 : static_cast<std::size_t>(ranks)),
      device_(backend,
              sizeof(kernels::StepRecords) + (votes ? 2 : 1) * ranks_ * sizeof(SegmentHeader)),
      host_(backend, device_.bytes()),
      completed_runs_(backend, sizeof(std::int64_t)),
      mark_(backend.make_mark()),
      settled_(backend) {}

std::size_t StepReport::offset(Round round) const {
  return sizeof(kernels::StepRecords) + (round == Round::vote ? ranks_ * sizeof(SegmentHeader) : 0);
}

SegmentHeader* StepReport::headers(Round round) const {
  return reinterpret_cast<SegmentHeader*>(static_cast<char*>(device_.data()) + offset(round));
}

std::span<const SegmentHeader> StepReport::seen_headers(Round round) const {
  return {reinterpret_cast<const SegmentHeader*>(static_cast<const char*>(host_.data()) +
                                                 offset(round)),
          ranks_};
}

void StepReport::set_gradients(const kernels::GradientState& state) {
  on_host()->gradients = state;
  backend_.upload(&records()->gradients, &on_host()->gradients, sizeof(state));
  backend_.synchronize();
}

void StepReport::send() {
  backend_.download(host_.data(), device_.data(), device_.bytes());
  mark_->set();
}

void StepReport::send_captured() {
  backend_.download(host_.data(), device_.data(), device_.bytes());
  backend_.download(completed_runs_.data(), &records()->runs.count, sizeof(std::int64_t));
}

std::int64_t StepReport::completed_runs() const {
  const std::atomic_ref<std::int64_t> runs(*static_cast<std::int64_t*>(completed_runs_.data()));
  return runs.load(std::memory_order_acquire);
}

}  // namespace shampoo
