// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "shampoo/checkpoint/lineage.h"
#include "shampoo/checkpoint/report_gather.h"
#include "shampoo/checkpoint/snapshot.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/pending_checkpoint.h"
#include "shampoo/protocol/readiness_vote.h"

namespace shampoo::checkpoint {

/// One save of one rank, in stages: rank 0 creates the temporary folder; all ranks write and sync
/// their files; rank 0, which has the reports of all, commits and removes old checkpoints. A thread
/// does the work of a stage. In advance() all ranks vote whether they have come to its end, and
/// then go on together: what one rank has thrown, all throw, after rank 0 has discarded the folder.
/// If a rank dies during the last vote, the others throw although the checkpoint is complete.
class SaveTask {
 public:
  /// Checks the request on this rank. Borrows the optimizers. Throws std::invalid_argument,
  /// std::system_error, std::bad_alloc.
  SaveTask(const Optimizers& optimizers, Snapshot snapshot, const std::filesystem::path& directory,
           const SaveOptions& options);
  /// Cancels; waits for the thread, not for other ranks.
  ~SaveTask();
  SaveTask(const SaveTask&) = delete;
  SaveTask& operator=(const SaveTask&) = delete;

  /// Lines that must be equal on all ranks.
  std::string request() const;
  /// step-N.
  const std::filesystem::path& folder() const { return folder_; }

  /// Throws at once what the first stage would throw for a step-N that is not to be replaced.
  void require_replaceable() const;
  /// Starts the first stage.
  void begin();
  /// Runs the collectives that all ranks have come to. Returns true once the save is over on all of
  /// them. Does not wait for other ranks' disks; on a device, unless `waits`, not for queued work
  /// either: then a vote is read by the next call. Collective, between begin() and finish().
  bool advance(bool waits);
  /// Calls advance() until it is over, and sleeps in between, so that no rank is in a collective
  /// for longer than the others sleep. Collective.
  void wait();
  /// Once it is over: it is the latest that the optimizers were saved to, if it is complete.
  void finish();
  /// The folder, after finish(). Throws the same on all ranks.
  std::filesystem::path result() const;

  /// Lets the thread fail the next time that it writes. Not collective.
  void cancel() { cancelled_ = true; }
  /// Of this save.
  SaveProgress progress() const;

 private:
  using Work = void (SaveTask::*)();

  bool leads() const { return snapshot_.data().rank == 0; }
  // On the thread: the work of the stages.
  void create();
  void list();
  void write();
  void commit();
  void discard();
  void prune();
  void remove_old();
  void count(std::int64_t bytes);
  void touch();
  // On the caller's.
  void start(Work stage);
  void run();
  bool is_ready() const;
  void cast();
  bool collect();
  bool go_on();
  void learn_id();
  void gather_reports();
  std::exception_ptr error_of_all();

  Optimizer& optimizer_;  ///< the first, over whose communicator the ranks vote
  SaveLineage lineage_;
  Snapshot snapshot_;
  const SaveOptions options_;
  const std::filesystem::path directory_;  ///< absolute
  const std::string given_directory_;
  const std::int64_t step_, bytes_;
  const std::filesystem::path folder_;
  Existing existing_ = Existing::refuse;
  std::optional<PendingCheckpoint> pending_;
  std::string report_;
  std::vector<std::string> reports_;
  bool committed_ = false;                    ///< on rank 0
  std::vector<std::filesystem::path> stale_;  ///< what could not be removed, on rank 0

  ReadinessVote vote_;
  ReportGather gather_;
  std::span<const Ballot> ballots_;
  Work stage_ = nullptr;
  std::future<void> work_;                     ///< of the stage; not valid: there is none
  std::array<std::uint64_t, 2> numbers_ = {};  ///< of this rank's ballot at the end of the stage
  std::exception_ptr error_;                   ///< of this rank in the stage
  std::exception_ptr thrown_;                  ///< of all ranks
  std::atomic<std::int64_t> written_ = 0;
  std::atomic<std::chrono::steady_clock::time_point> moved_;  ///< when something was last done
  std::atomic<bool> cancelled_ = false;
  std::thread thread_;
};

}  // namespace shampoo::checkpoint
