// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/fashion/network/network.h"
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

/// What must be the same when a run goes on.
struct RunIdentity {
  std::string method;
  std::uint64_t seed;
  double rate;
  std::string schedule;     ///< name
  int epochs;               ///< that it is for; the run may end earlier
  std::string gradients;    ///< how they come about
  std::string routes = {};  ///< as JSON, kept in the checkpoints; empty: none
};

/// Saves a run while it trains, and brings it back. Borrows all but the plan.
class Checkpoints {
 public:
  Checkpoints(shampoo::Communicator& ranks, shampoo::Optimizer& optimizer, Network<float>& network,
              CheckpointPlan plan, RunIdentity identity);

  /// Goes on from the latest good checkpoint, if there is one: then `state` describes its run, and
  /// what a person should know is returned. Collective. Throws std::invalid_argument where there is
  /// one and the plan does not resume.
  std::string resume(RunState& state);
  /// True if the checkpoint of this step is on the disk or on its way there.
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
  void require_same_run(const shampoo::UserState& found) const;
  void start(RunState& state);

  shampoo::Communicator& ranks_;
  shampoo::Optimizer& optimizer_;
  Network<float>& network_;
  CheckpointPlan plan_;
  RunIdentity identity_;
  std::filesystem::path root_;
  int saved_ = -1;  ///< the step of the latest checkpoint; -1: it failed, or there is none
  shampoo::AsyncCheckpointer checkpointer_;
};

}  // namespace fashion
