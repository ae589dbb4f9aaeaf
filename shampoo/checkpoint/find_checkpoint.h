// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/storage/checkpoint_order.h"

namespace shampoo::checkpoint {

/// The checkpoints that a path names, the one to load first. Rank 0 looks; all ranks have the same.
class CheckpointSearch {
 public:
  /// Borrows the optimizers, and their list. `path`: a checkpoint or a directory of them. `user`:
  /// what it is loaded into, borrowed; null: nothing.
  CheckpointSearch(const Optimizers& optimizers, const std::filesystem::path& path,
                   const UserState* user);

  /// The next complete one, if there is one. Collective; throws the same on all ranks, faults of
  /// the user state even where there is no checkpoint, as a save of it will follow.
  std::optional<std::filesystem::path> next();
  /// The one of next() is broken.
  void pass_over(const std::string& fault);
  /// What was found broken so far, in the order of searching.
  const std::vector<BrokenCheckpoint>& passed_over() const { return passed_over_; }
  /// The path is a checkpoint itself.
  bool is_one() const { return is_one_; }

 private:
  void look();

  const Optimizers& optimizers_;
  Optimizer& optimizer_;        ///< the first
  const UserState* user_;       ///< until it is validated
  std::filesystem::path path_;  ///< absolute once next() was called
  std::string given_path_;
  bool looked_ = false, is_one_ = false;
  int listings_ = 1;                        ///< of the directory
  std::optional<NewestFirst> checkpoints_;  ///< on rank 0, of a directory
  std::string folder_;                      ///< of next(); empty: there is none
  std::vector<BrokenCheckpoint> passed_over_;
};

/// Calls open(), and again for up to `patience` while what it opens is not there yet, which rank 0
/// has seen.
void open_patiently(std::chrono::milliseconds patience, const std::function<void()>& open);

}  // namespace shampoo::checkpoint
