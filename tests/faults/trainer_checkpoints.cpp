// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/trainer_checkpoints.h"

#include <stdexcept>
#include <utility>

namespace shampoo::test {

TrainerCheckpoints::TrainerCheckpoints(Optimizer& optimizer, ToyModel<float>& model,
                                       Options options)
    : optimizer_(optimizer),
      model_(model),
      options_(std::move(options)),
      checkpointer_(optimizer, {.while_saving = WhileSaving::queue}) {}

int TrainerCheckpoints::resume() {
  UserState found = user_state(0);
  const auto loaded = shampoo::resume(optimizer_, options_.root, found);
  if (!loaded) return 0;
  if (std::get<std::int64_t>(found.values.at("step")) != loaded->step)
    throw std::runtime_error(loaded->folder.string() + " has the user state of another step");
  return static_cast<int>(loaded->step);
}

void TrainerCheckpoints::after(int step) {
  const SaveOptions options{.step = step, .keep_last = 2};
  const bool now = step % options_.every == 0;
  if (now && !options_.threaded) save(optimizer_, options_.root, user_state(step), options);
  if (now && options_.threaded) checkpointer_.start(options_.root, user_state(step), options);
  checkpointer_.poll();
}

void TrainerCheckpoints::finish() { checkpointer_.wait(); }

UserState TrainerCheckpoints::user_state(std::int64_t step) {
  UserState all{.values = {{"step", step}}};
  for (auto& tensor : model_.tensors)
    all.tensors.push_back({tensor.name, tensor.shape, tensor.value.data()});
  return all;
}

}  // namespace shampoo::test
