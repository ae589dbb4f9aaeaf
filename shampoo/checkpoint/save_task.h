// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "shampoo/checkpoint/main_thread_executor.h"
#include "shampoo/checkpoint/snapshot.h"
#include "shampoo/checkpoint/storage/pending_checkpoint.h"

namespace shampoo::checkpoint {

/// take_snapshot(), where an error of one rank is thrown by all. Collective.
Snapshot take_snapshot_together(Optimizer& optimizer, const UserState& user, bool derived,
                                Contents contents);

/// One save of one rank, in stages: rank 0 creates the temporary folder; all ranks write and sync
/// their files; rank 0 gathers their reports; it commits. Each ends with a vote, so that the save
/// succeeds on all ranks or on none. If a rank dies during the last vote, the others throw although
/// the checkpoint is complete and stays.
class SaveTask {
 public:
  /// Checks the request and agrees with the other ranks on it. Collective; throws the same on all
  /// ranks. Borrows the optimizer.
  SaveTask(Optimizer& optimizer, Snapshot snapshot, const std::filesystem::path& directory,
           const SaveOptions& options);

  /// Writes the checkpoint, removes old ones, and returns the folder. Its collectives run on
  /// `main_thread`, or on the calling thread if that is null; they must come about on all ranks.
  /// Once only.
  std::filesystem::path run(MainThreadExecutor* main_thread);

  /// Bytes of tensors written so far, and in all. Safe from other threads.
  std::int64_t written() const { return written_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  bool leads() const { return snapshot_.data().rank == 0; }
  void collectively(const std::function<void()>& work);
  /// Calls work(); what one rank has thrown, all throw.
  void stage(const std::function<void()>& work);
  Manifest gather_manifest(const std::string& report);
  void prune() const;

  Optimizer& optimizer_;
  const Snapshot snapshot_;
  const SaveOptions options_;
  const std::int64_t bytes_;
  PendingCheckpoint pending_;
  MainThreadExecutor* main_thread_ = nullptr;
  std::atomic<std::int64_t> written_ = 0;
};

}  // namespace shampoo::checkpoint
