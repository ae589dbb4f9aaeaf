// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>
#include <utility>

#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

Progress StepProtocol::progress() const {
  Progress progress{attempts_, taken_, skipped_in_a_row_};
  gradients_.save(report_.seen_gradients(), progress);
  return progress;
}

double StepProtocol::loss_scale() {
  wait_for_previous();
  return static_cast<double>(report_.seen_gradients().now.scale);
}

/// Addresses of gradients are uploaded, which a prepared step reads, too.
void StepProtocol::begin_writing_gradients(const char* call) {
  const std::string name(call);
  if (backend_.is_capturing()) throw std::logic_error(name + ": cannot be captured");
  require_training(call);
  wait_for_previous();
  throw_error();
  check_usable();
  if (prepared_) throw std::logic_error(name + ": must be called before prepare_step()");
}

void StepProtocol::begin_averaging() {
  const auto begin = [this] { begin_writing_gradients("average_gradients"); };
  if (consensus_.alone() || backend_.is_capturing()) return begin();
  if (rejoin()) check_usable();  // the others have heard of it and are elsewhere
  vote(averaging_gradients, "gradients", [&] {
    begin();
    return std::string();
  });
}

void StepProtocol::unscale(Engine& engine, bool allow_float16) {
  begin_writing_gradients("unscale");
  if (unscaled_)
    throw std::logic_error(
        "unscale: the gradients of the next step were unscaled before; zero_gradients() must come "
        "before others");
  for (const RegisteredParameter& registered : engine.parameters())
    if (!allow_float16 && registered.parameter().gradient.type == Type::float16)
      throw std::invalid_argument(
          "unscale: parameter '" + registered.parameter().name +
          "': its gradient has type float16, in which numbers without the loss scale may vanish; "
          "allow_float16 must be true");
  engine.require_distinct_gradients("unscale");
  engine.scale_gradients(gradients_.scan_scale());
  gradients_.set_unscaled();
  unscaled_ = true;
}

void StepProtocol::zero_gradients(Engine& engine) {
  begin_writing_gradients("zero_gradients");
  engine.scale_gradients(gradients_.zero());
  if (!std::exchange(unscaled_, false)) return;
  kernels::GradientState state = report_.seen_gradients();
  state.now.inverse = 1 / static_cast<double>(state.now.scale);
  report_.set_gradients(state);
}

}  // namespace shampoo
