// SPDX-License-Identifier: Apache-2.0
#include "shampoo/protocol/step_outcome.h"

#include <stdexcept>

#include "shampoo/protocol/step_protocol.h"
#include "shampoo/step_result.h"

namespace shampoo {

namespace {

/// The pending step, the previous result that the caller still holds, and one spare.
constexpr std::size_t usual_outcomes = 3;

}  // namespace

const StepOutcome& StepOutcome::read() {
  if (!known && protocol) protocol->wait_for_previous();
  if (error) {
    if (protocol) protocol->mark_reported(error);
    std::rethrow_exception(error);
  }
  if (!known)
    throw std::logic_error(
        "StepResult: the optimizer was destroyed before the outcome of its step was known");
  return *this;
}

StepOutcomes::StepOutcomes() {
  while (all_.size() < usual_outcomes) all_.push_back(std::make_shared<StepOutcome>());
}

StepOutcomes::~StepOutcomes() {
  for (const auto& outcome : all_) outcome->protocol = nullptr;
}

std::shared_ptr<StepOutcome> StepOutcomes::begin(StepProtocol& protocol) {
  for (const auto& outcome : all_)
    if (outcome.use_count() == 1) {
      *outcome = {.protocol = &protocol};
      return outcome;
    }
  all_.push_back(std::make_shared<StepOutcome>(StepOutcome{.protocol = &protocol}));
  return all_.back();
}

bool StepResult::applied() const { return outcome_->read().applied; }
std::string_view StepResult::non_finite_gradient() const {
  return outcome_->read().non_finite_gradient;
}
std::string_view StepResult::non_finite_direction() const {
  return outcome_->read().non_finite_direction;
}
std::int64_t StepResult::absent_gradients() const { return outcome_->read().absent_gradients; }
double StepResult::gradient_norm() const { return outcome_->read().gradient_norm; }
double StepResult::clip_factor() const { return outcome_->read().clip_factor; }
double StepResult::loss_scale() const { return outcome_->read().loss_scale; }
bool StepResult::spike() const { return outcome_->read().spike; }

}  // namespace shampoo
