// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/toy_model.h"

namespace shampoo::test {

/// What fault_trainer saves, and where it goes on.
class TrainerCheckpoints {
 public:
  struct Options {
    std::filesystem::path root;
    int every = 1;          ///< steps from one save to the next
    bool threaded = false;  ///< by an AsyncCheckpointer, while training goes on
  };

  /// Borrows both.
  TrainerCheckpoints(Optimizer& optimizer, ToyModel<float>& model, Options options);

  /// Loads the latest checkpoint, if there is one; the steps that it has behind it. Collective.
  int resume();
  /// Saves if it is time, and takes a save under way further. Collective.
  void after(int step);
  /// Waits for the last save. Collective.
  void finish();

 private:
  UserState user_state(std::int64_t step);

  Optimizer& optimizer_;
  ToyModel<float>& model_;
  Options options_;
  AsyncCheckpointer checkpointer_;
};

}  // namespace shampoo::test
