// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/save_task.h"

#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "distributor/text_consensus.h"
#include "shampoo/checkpoint/shard_writer.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint_directory.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo::checkpoint {
namespace {

std::vector<std::string> gather(const Optimizer& optimizer, const std::string& own) {
  std::vector<std::string> texts;
  OptimizerAccess::protocol(optimizer).in_collective([&] {
    texts = gather_texts(OptimizerAccess::backend(optimizer),
                         OptimizerAccess::communicator(optimizer), own);
  });
  return texts;
}

PendingCheckpoint agree_on_place(Optimizer& optimizer, const Snapshot& snapshot,
                                 const std::filesystem::path& directory,
                                 const SaveOptions& options) {
  StepProtocol& protocol = OptimizerAccess::protocol(optimizer);
  protocol.check_usable();
  const std::int64_t step = options.step.value_or(snapshot.step());
  protocol.vote(saving_checkpoint, "request", [&] {
    if (step < 0)
      throw std::invalid_argument("save: step: must be >= 0, got " + std::to_string(step));
    if (options.keep_last < 0)
      throw std::invalid_argument("save: keep_last: must be >= 0, got " +
                                  std::to_string(options.keep_last));
    return "directory: " + directory.string() + "\nstep: " + std::to_string(step) +
           "\nkeep_last: " + std::to_string(options.keep_last) + "\n" +
           request_text(snapshot.data());
  });
  const bool leads = snapshot.data().rank == 0;
  return {directory, step, gather(optimizer, leads ? new_save_id() : std::string()).front()};
}

}  // namespace

Snapshot take_snapshot_together(Optimizer& optimizer, const UserState& user, bool derived,
                                Contents contents) {
  std::optional<Snapshot> copy;
  StepProtocol& protocol = OptimizerAccess::protocol(optimizer);
  protocol.check_usable();
  protocol.require_training("save");
  protocol.vote(saving_checkpoint, "call", [&] {
    copy.emplace(take_snapshot(optimizer, user, derived, contents));
    return std::string();
  });
  return std::move(*copy);
}

SaveTask::SaveTask(Optimizer& optimizer, Snapshot snapshot, const std::filesystem::path& directory,
                   const SaveOptions& options)
    : optimizer_(optimizer),
      snapshot_(std::move(snapshot)),
      options_(options),
      bytes_(snapshot_.bytes()),
      pending_(agree_on_place(optimizer, snapshot_, directory, options)) {}

std::filesystem::path SaveTask::run(MainThreadExecutor* main_thread) {
  main_thread_ = main_thread;
  std::string report;
  Manifest manifest;
  try {
    stage([&] {
      if (leads()) pending_.create();
    });
    stage([&] {
      report = serialize_report(write_shard(snapshot_.data(), pending_.temporary(), pending_.save(),
                                            pending_.step(), written_));
      // The entries that a rank made are synced by its own machine.
      sync_folder(pending_.temporary());
    });
    stage([&] { manifest = gather_manifest(report); });
    stage([&] {
      if (leads()) pending_.commit(manifest);
      // A vote that a rank did not live to see must not remove a complete checkpoint.
      pending_.release();
    });
  } catch (...) {
    pending_.discard();
    throw;
  }
  if (options_.keep_last > 0)
    stage([&] {
      if (leads()) prune();
    });
  return pending_.folder();
}

void SaveTask::collectively(const std::function<void()>& work) {
  main_thread_ ? main_thread_->submit(work) : work();
}

void SaveTask::stage(const std::function<void()>& work) {
  std::exception_ptr mine;
  try {
    work();
  } catch (...) {
    mine = std::current_exception();
  }
  collectively([&] {
    OptimizerAccess::protocol(optimizer_).vote(saving_checkpoint, "outcome", [&] {
      if (mine) std::rethrow_exception(mine);
      return std::string();
    });
  });
}

Manifest SaveTask::gather_manifest(const std::string& report) {
  std::vector<std::string> reports;
  collectively([&] { reports = gather(optimizer_, report); });
  if (!leads()) return {};
  Manifest manifest = manifest_of(snapshot_.data(), reports);
  manifest.save = pending_.save();
  manifest.step = pending_.step();
  return manifest;
}

void SaveTask::prune() const {
  const std::filesystem::path& folder = pending_.folder();
  try {
    prune_checkpoints(folder.parent_path(), options_.keep_last);
  } catch (const std::system_error& error) {
    const std::string meaning = ": " + error.code().message();
    std::string text = folder.string() +
                       " is complete, but older checkpoints could not be removed: " + error.what();
    if (text.ends_with(meaning)) text.resize(text.size() - meaning.size());
    throw std::system_error(error.code(), text);
  }
}

}  // namespace shampoo::checkpoint

namespace shampoo {

std::filesystem::path save(Optimizer& optimizer, const std::filesystem::path& directory,
                           const UserState& user, const SaveOptions& options) {
  const bool in_host_memory = OptimizerAccess::backend(optimizer).memory_kind() == MemoryKind::host;
  Snapshot state = checkpoint::take_snapshot_together(
      optimizer, user, options.derived, in_host_memory ? Contents::borrowed : Contents::copied);
  return checkpoint::SaveTask(optimizer, std::move(state), directory, options).run(nullptr);
}

}  // namespace shampoo
