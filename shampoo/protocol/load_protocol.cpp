// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <span>
#include <string>

#include "shampoo/protocol/step_protocol.h"

/// How ranks replace their states together.
namespace shampoo {

/// The other ranks have already replaced theirs.
void StepProtocol::fail_replacing(const std::string& replaced) {
  const std::string what = "it could not replace " + replaced + ": " + current_error().message;
  if (!consensus_.alone()) {
    communicator_.abort(what);
    disable_by(CommunicationError(communicator_.failure()));
  }
  disable(what);
  throw *unusable_;
}

/// After an error the tensors of the user may have some of both states.
void StepProtocol::write_user(std::span<StepProtocol* const> protocols,
                              const std::function<void()>& write) try {
  protocols.front()->vote(loading_state, "user state", [&] {
    write();
    return std::string();
  });
} catch (...) {
  const std::string what = "it could not replace the user state: " + current_error().message +
                           "; the optimizer can be used again once a load has succeeded";
  for (StepProtocol* const protocol : protocols) {
    if (protocol->communicator_.failure().empty()) protocol->unusable_.emplace(what);
    if (protocol->captured_) protocol->disable_replay(*protocol->engine_);
  }
  throw;
}

/// Each may have the state of before, of the checkpoint, or some of both.
void StepProtocol::fail_loading(std::span<StepProtocol* const> protocols) {
  for (StepProtocol* const protocol : protocols) try {
      protocol->fail_replacing("the state");
    } catch (const CommunicationError&) {  // kept in unusable_
    }
  throw *protocols.front()->unusable_;
}

void StepProtocol::finish_load(const Progress& progress) {
  attempts_ = progress.attempts;
  taken_ = progress.taken;
  skipped_in_a_row_ = progress.skipped_in_a_row;
  report_.set_gradients(gradients_.load(progress));
  unscaled_ = false;
  prepared_ = values_compared_ = false;
  step_error_.reset();
  deferred_error_.reset();
  unreported_error_ = nullptr;
  unusable_.reset();
  left_evaluation_ = false;
}

}  // namespace shampoo
