// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <utility>

#include "shampoo/protocol/diagnostics.h"
#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

void StepProtocol::require_outside_transform() const {
  if (computing_)
    throw std::logic_error("transform_direction must not change or save the optimizer");
}

void StepProtocol::require_training(const char* call) const {
  require_outside_transform();
  if (evaluating_)
    throw std::logic_error(
        std::string(call) +
        ": the evaluation values are in place; end the Evaluation first, in C by "
        "shampoo_end_evaluation()");
}

void StepProtocol::begin_evaluation(Engine& engine, const std::function<void()>& check) {
  if (backend_.is_capturing()) throw std::logic_error("evaluate: cannot be captured");
  wait_for_previous();
  join_usable();
  require_training("evaluate");
  const auto require_no_step = [this] {
    if (prepared_)
      throw std::logic_error("evaluate: a step is prepared; enqueue or replay it first");
  };
  if (!engine.value_exchange())
    require_no_step();
  else
    try {
      exchange_values(engine, evaluating, [&] {
        require_no_step();
        check();
        evaluation_.emplace(backend_, engine);
        evaluation_->compute();
      });
    } catch (...) {
      evaluation_.reset();
      throw;
    }
  evaluating_ = true;
}

void StepProtocol::end_evaluation(Engine& engine, bool unwinding) {
  if (!std::exchange(evaluating_, false) || !evaluation_) return;
  if (unwinding && !consensus_.alone()) {
    if (!unusable_) {
      left_evaluation_ = true;
      disable("an exception ended an Evaluation, and the training values were not brought back");
    }
    evaluation_.reset();
    return;
  }
  try {
    check_usable();
    exchange_values(engine, ending_evaluation, [&] { evaluation_->recall(); });
  } catch (...) {
    if (!unusable_)
      disable("the training values could not be brought back: " + current_error().message);
    evaluation_.reset();
    throw;
  }
  evaluation_.reset();
}

void StepProtocol::join_usable() {
  rejoin();
  check_usable();
}

/// Tells the others, who may wait for the end of an Evaluation, what took this rank out of it. True
/// if there was that to tell.
bool StepProtocol::rejoin() {
  require_outside_transform();
  if (!std::exchange(left_evaluation_, false)) return false;
  try {
    exchange_values(*engine_, ending_evaluation,
                    [] { throw CommunicationError("an exception ended an Evaluation"); });
  } catch (const CommunicationError&) {
    if (!communicator_.failure().empty()) throw;  // else it is the error above, and all have it
  }
  return true;
}

/// fill() writes this rank's segment; values change only after it succeeded on all ranks.
void StepProtocol::exchange_values(Engine& engine, std::int64_t call,
                                   const std::function<void()>& fill) {
  engine_ = &engine;
  const std::optional<TransferableError> own = own_error(fill);
  StepDecision decision;
  if (!consensus_.alone())
    in_collective(call, [&] {
      Exchange& exchange = *engine.value_exchange();
      // Rates enter on the way to the evaluation values only.
      exchange.write({.taken = static_cast<std::int32_t>(taken_),
                      .step = call,
                      .plan = plan_hash_,
                      .rates = call == evaluating ? rates_hash(engine.groups()) : 0,
                      .status = own ? RankStatus::skipped : RankStatus::none});
      exchange.run();
      decision = consensus_.decide(exchange.headers(), own, diagnostics(), true);
    });
  throw_if_failed(decision, "");
  try {
    evaluation_->assign();
    backend_.synchronize();
  } catch (...) {
    fail_replacing("the values");
  }
}

}  // namespace shampoo
