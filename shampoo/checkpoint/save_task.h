// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shampoo/checkpoint/main_thread_executor.h"
#include "shampoo/checkpoint/report_gather.h"
#include "shampoo/checkpoint/snapshot.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/pending_checkpoint.h"
#include "shampoo/protocol/readiness_vote.h"

namespace shampoo::checkpoint {

/// One save of one rank, on a thread of its own, in stages: rank 0 creates the temporary folder;
/// all ranks write and sync their files; rank 0 gathers their reports, commits, and removes old
/// checkpoints. After each stage the thread waits until all ranks have come so far, which they vote
/// on in advance(): what one rank has thrown, all throw. If a rank dies during the last vote, the
/// others throw although the checkpoint is complete and stays.
class SaveTask {
 public:
  /// Checks the request on this rank, and starts the thread, which waits for begin(). Borrows the
  /// optimizer. Throws std::invalid_argument, std::system_error, std::bad_alloc.
  SaveTask(Optimizer& optimizer, Snapshot snapshot, const std::filesystem::path& directory,
           const SaveOptions& options);
  /// Cancels; waits for the thread, not for other ranks.
  ~SaveTask();
  SaveTask(const SaveTask&) = delete;
  SaveTask& operator=(const SaveTask&) = delete;

  /// Lines that must be equal on all ranks.
  std::string request() const;
  /// step-N.
  const std::filesystem::path& folder() const { return folder_; }

  void begin();
  /// Runs the collectives that all ranks have come to. Returns true once the save is over on all of
  /// them. Does not wait for other ranks' disks; on a device, unless `waits`, not for queued work
  /// either: then a vote is read by the next call. Collective, between begin() and finish().
  bool advance(bool waits);
  /// Calls advance() until it is over, and sleeps in between, so that no rank is in a collective
  /// for longer than the others sleep. Collective.
  void wait();
  /// Once it is over: it is the latest that the optimizer was saved to, if it is complete.
  void finish();
  /// The folder, after finish(). Throws the same on all ranks.
  std::filesystem::path result() const;

  /// Lets the thread fail the next time that it writes. Not collective.
  void cancel() { cancelled_ = true; }
  /// Of this save. Safe beside the thread.
  SaveProgress progress() const;
  /// The memory of the snapshot, once it is over; null for one that copied nothing.
  std::unique_ptr<SnapshotMemory> take_memory() { return snapshot_.take_memory(); }

 private:
  using Work = std::function<void()>;

  bool leads() const { return snapshot_.data().rank == 0; }
  void run();
  void create();
  void learn_id();
  void write();
  void commit();
  void prune();
  void stage(const Work& work, const Work& together);
  void count(std::int64_t bytes);
  void touch();
  void cast();
  bool collect();
  void finish_stage(const Work& together);
  void gather_reports();
  std::optional<TransferableError> own_error() const;

  Optimizer& optimizer_;
  Snapshot snapshot_;
  const SaveOptions options_;
  const std::filesystem::path directory_;  ///< absolute
  const std::string given_directory_;
  const std::int64_t step_, bytes_;
  const std::filesystem::path folder_;
  Existing existing_ = Existing::refuse;
  std::string parent_;             ///< see Manifest; on rank 0
  std::vector<std::string> kept_;  ///< ids of saves that are not pruned
  std::optional<PendingCheckpoint> pending_;
  std::string report_;
  std::vector<std::string> reports_;

  ReadinessVote vote_;
  ReportGather gather_;
  std::span<const Ballot> ballots_;
  std::array<std::uint64_t, 2> numbers_ = {};  ///< of this rank's next ballot
  std::exception_ptr error_;                   ///< of this rank in the stage
  MainThreadExecutor main_thread_;
  bool over_ = false;       ///< the last stage has ended well
  bool committed_ = false;  ///< on rank 0
  std::exception_ptr thrown_;
  std::atomic<std::int64_t> written_ = 0;
  std::atomic<std::chrono::steady_clock::time_point> moved_;  ///< when something was last done
  std::atomic<bool> cancelled_ = false;
  std::atomic<int> begun_ = 0;
  std::thread thread_;
};

/// A save whose arguments are right on all ranks and equal: take() gives its snapshot, check() may
/// throw. Collective; throws the same on all ranks.
std::unique_ptr<SaveTask> agree_on_save(Optimizer& optimizer, const std::function<Snapshot()>& take,
                                        const std::filesystem::path& directory,
                                        const SaveOptions& options,
                                        const std::function<void(const SaveTask&)>& check);

}  // namespace shampoo::checkpoint
