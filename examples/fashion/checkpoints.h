// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/fashion/network/network.h"
#include "examples/identity.h"
#include "shampoo/shampoo.h"

namespace fashion {

/// Where and when a run is saved.
struct CheckpointPlan {
  std::filesystem::path folder;  ///< of all runs; a run has a folder in it
  int every = 100;               ///< steps
  int keep = 3;                  ///< of a run; 0: all
  bool resume = false;           ///< goes on from the latest one, if there is one
};

/// Progress of a run, in addition to its network and its optimizer.
struct RunState {
  int step = 0;                    ///< steps taken
  std::vector<double> losses;      ///< of each planned step, 0 for those to come
  std::vector<double> accuracies;  ///< after each planned epoch, likewise
  double seconds = 0, optimizer_seconds = 0;
};

/// Saves a run while it trains, and brings it back. Borrows ranks, optimizer and network.
class Checkpoints {
 public:
  /// `method`: the folder of the run in that of the plan.
  Checkpoints(shampoo::Communicator& ranks, shampoo::Optimizer& optimizer, Network<float>& network,
              CheckpointPlan plan, const std::string& method, examples::Identity identity);

  /// Goes on from the latest good checkpoint, if there is one: then `state` describes its run, and
  /// what a person should know is returned. Collective. Throws std::invalid_argument where there is
  /// one of another run, or the plan does not resume.
  std::string resume(RunState& state);
  /// True if the checkpoint of this step is on its way to the disk, or is there and has replaced
  /// those that are too old.
  bool has(int step) const { return step == saved_; }
  /// True if save() saves after this step.
  bool is_due(int step) const { return !has(step) && step % plan_.every == 0; }
  /// To be called after every step. Begins to save where it is time to, or in any case if `last`,
  /// and then waits for the disk, too. Returns what a person should know, or nothing: a disk that
  /// is full does not end the training. After the last step has() tells whether all is saved.
  /// Collective.
  std::string save(RunState& state, bool last);

 private:
  shampoo::UserState user_state(RunState& state);
  void start(RunState& state);

  shampoo::Communicator& ranks_;
  shampoo::Optimizer& optimizer_;
  Network<float>& network_;
  CheckpointPlan plan_;
  examples::Identity identity_;
  std::filesystem::path root_;
  int saved_ = -1;  ///< the step of the latest checkpoint; -1: it failed, or there is none
  shampoo::AsyncCheckpointer checkpointer_;
};

}  // namespace fashion
