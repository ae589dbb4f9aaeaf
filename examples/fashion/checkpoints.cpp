// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/checkpoints.h"

#include <stdexcept>
#include <system_error>
#include <utility>

namespace fashion {

Checkpoints::Checkpoints(shampoo::Communicator& ranks, shampoo::Optimizer& optimizer,
                         Network<float>& network, CheckpointPlan plan, const std::string& method,
                         examples::Identity identity)
    : ranks_(ranks),
      optimizer_(optimizer),
      network_(network),
      plan_(std::move(plan)),
      identity_(std::move(identity)),
      root_(plan_.folder / method),
      checkpointer_(optimizer) {}

shampoo::UserState Checkpoints::user_state(RunState& state) {
  shampoo::UserState user;
  for (const auto& tensor : network_.tensors())
    user.tensors.push_back({tensor.name, tensor.shape, tensor.value});
  const auto size = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  user.tensors.push_back({"losses", {size(state.losses)}, state.losses.data()});
  user.tensors.push_back({"accuracies", {size(state.accuracies)}, state.accuracies.data()});
  user.values = identity_;
  user.values["step"] = std::int64_t{state.step};
  user.values["seconds"] = state.seconds;
  user.values["optimizer_seconds"] = state.optimizer_seconds;
  return user;
}

std::string Checkpoints::resume(RunState& state) {
  shampoo::UserState found = user_state(state);
  const auto loaded = examples::resume(optimizer_, root_, found, identity_);
  if (!loaded) return "";
  if (!plan_.resume)
    throw std::invalid_argument("--checkpoint: " + root_.string() +
                                " has checkpoints; --resume goes on from them");
  state.step = static_cast<int>(std::get<std::int64_t>(found.values.at("step")));
  state.seconds = std::get<double>(found.values.at("seconds"));
  state.optimizer_seconds = std::get<double>(found.values.at("optimizer_seconds"));
  saved_ = state.step;
  std::string text = "goes on after step " + std::to_string(state.step);
  for (const shampoo::BrokenCheckpoint& broken : loaded->passed_over)
    text += "; " + broken.path.filename().string() + " is broken: " + broken.fault;
  return text;
}

void Checkpoints::start(RunState& state) {
  // Clocks differ, and user values are the same on all ranks.
  double clocks[] = {state.seconds, state.optimizer_seconds};
  ranks_.broadcast(clocks, sizeof clocks, 0).wait();
  state.seconds = clocks[0];
  state.optimizer_seconds = clocks[1];
  checkpointer_.start(root_, user_state(state), {.step = state.step, .keep_last = plan_.keep});
  saved_ = state.step;
}

std::string Checkpoints::save(RunState& state, bool last) {
  std::string complaint;
  const auto tell = [&](const auto& work) {
    try {
      work();
    } catch (const std::system_error& error) {
      complaint = std::string("a checkpoint failed: ") + error.what();
      saved_ = -1;
    }
  };
  const bool starts = is_due(state.step) || (last && !has(state.step));
  tell([&] { starts ? checkpointer_.wait() : checkpointer_.poll(); });
  if (starts) tell([&] { start(state); });
  if (last) tell([&] { checkpointer_.wait(); });
  return complaint;
}

}  // namespace fashion
