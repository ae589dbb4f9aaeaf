// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/save_task.h"

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "distributor/system/thread_without_signals.h"
#include "shampoo/checkpoint/shard_writer.h"
#include "shampoo/checkpoint/storage/checkpoint_order.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint_directory.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo::checkpoint {
namespace {

using std::chrono::steady_clock;

std::int64_t step_of_save(const Snapshot& snapshot, const SaveOptions& options) {
  const std::int64_t step = options.step.value_or(snapshot.step());
  if (step < 0)
    throw std::invalid_argument("save: step: must be >= 0, got " + std::to_string(step));
  if (options.keep_last < 0)
    throw std::invalid_argument("save: keep_last: must be >= 0, got " +
                                std::to_string(options.keep_last));
  return step;
}

enum Begun : int { not_yet, yes, never };

}  // namespace

SaveTask::SaveTask(Optimizer& optimizer, Snapshot snapshot, const std::filesystem::path& directory,
                   const SaveOptions& options)
    : optimizer_(optimizer),
      snapshot_(std::move(snapshot)),
      options_(options),
      directory_(std::filesystem::absolute(directory)),
      given_directory_(directory.string()),
      step_(step_of_save(snapshot_, options)),
      bytes_(snapshot_.bytes()),
      folder_(directory_ / folder_name(step_)),
      vote_(OptimizerAccess::backend(optimizer), OptimizerAccess::communicator(optimizer)),
      gather_(OptimizerAccess::backend(optimizer), OptimizerAccess::communicator(optimizer)) {
  const bool passed_over = OptimizerAccess::lineage(optimizer).passed_over.contains(folder_);
  if (options.replace || passed_over) existing_ = Existing::replace;
  if (leads()) is_replaceable(directory_, step_, existing_);
  touch();
  thread_ = thread_without_signals([this] {
    begun_.wait(not_yet);
    if (begun_ == never) return;
    try {
      run();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    main_thread_.close();
  });
}

SaveTask::~SaveTask() {
  cancel();
  main_thread_.cancel();
  int expected = not_yet;
  if (begun_.compare_exchange_strong(expected, never)) begun_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string SaveTask::request() const {
  return "directory: " + given_directory_ + "\nstep: " + std::to_string(step_) +
         "\nkeep_last: " + std::to_string(options_.keep_last) +
         "\nreplace: " + (options_.replace ? "true" : "false") + "\n" +
         request_text(snapshot_.data());
}

void SaveTask::begin() {
  const CheckpointLineage& lineage = OptimizerAccess::lineage(optimizer_);
  parent_ = lineage.latest;
  if (!lineage.loaded.empty()) kept_.push_back(lineage.loaded);
  touch();
  begun_ = yes;
  begun_.notify_all();
}

void SaveTask::run() {
  try {
    stage([this] { create(); }, [this] { learn_id(); });
    stage([this] { write(); }, [this] { gather_reports(); });
    stage([this] { commit(); }, [this] { over_ = true; });
  } catch (...) {
    if (pending_) pending_->discard();
    throw;
  }
}

void SaveTask::create() {
  if (!leads()) return;
  numbers_ = random_bits();
  pending_.emplace(directory_, step_, save_id_of(numbers_), existing_);
  pending_->create();
}

void SaveTask::learn_id() {
  if (!leads()) pending_.emplace(directory_, step_, save_id_of(ballots_[0].numbers), existing_);
}

void SaveTask::write() {
  count(0);
  report_ =
      serialize_report(write_shard(snapshot_.data(), pending_->temporary(), pending_->save(),
                                   pending_->step(), [this](std::int64_t bytes) { count(bytes); }));
  // The entries that a rank made are synced by its own machine.
  sync_folder(pending_->temporary());
  numbers_ = {report_.size(), 0};
}

void SaveTask::commit() {
  if (!leads()) return;
  if (gather_.error()) std::rethrow_exception(gather_.error());
  Manifest manifest = manifest_of(snapshot_.data(), std::exchange(reports_, {}));
  manifest.save = pending_->save();
  manifest.parent = parent_;
  manifest.step = pending_->step();
  manifest.sequence = NewestFirst(directory_).next_sequence();
  pending_->commit(manifest);
  // A vote that a rank did not live to see must not remove a complete checkpoint.
  pending_->release();
  committed_ = true;
  touch();
  prune();
}

void SaveTask::prune() {
  try {
    pending_->remove_replaced();
    if (options_.keep_last == 0) return;
    for (const auto& old : checkpoints_to_prune(directory_, options_.keep_last, kept_))
      remove_checkpoint(old);
  } catch (const std::system_error& error) {
    const std::string meaning = ": " + error.code().message();
    std::string text = folder_.string() +
                       " is complete, but older checkpoints could not be removed: " + error.what();
    if (text.ends_with(meaning)) text.resize(text.size() - meaning.size());
    throw std::system_error(error.code(), text);
  }
}

/// Calls work(), and together() once all ranks have come so far without an error.
void SaveTask::stage(const Work& work, const Work& together) {
  numbers_ = {};
  try {
    work();
  } catch (...) {
    error_ = std::current_exception();
  }
  main_thread_.submit([&] { finish_stage(together); });
  touch();
}

void SaveTask::finish_stage(const Work& together) {
  Communicator& ranks = OptimizerAccess::communicator(optimizer_);
  if (ranks.size() == 1 && error_) std::rethrow_exception(error_);
  if (std::ranges::any_of(ballots_, &Ballot::failed)) {
    TransferableError joined;
    OptimizerAccess::protocol(optimizer_).in_collective(saving_checkpoint, [&] {
      joined = Consensus(OptimizerAccess::backend(optimizer_), ranks).gather_errors(own_error());
    });
    rethrow(joined);
  }
  together();
}

std::optional<TransferableError> SaveTask::own_error() const {
  if (!error_) return std::nullopt;
  try {
    std::rethrow_exception(error_);
  } catch (...) {
    return current_error();
  }
}

void SaveTask::gather_reports() {
  std::vector<std::int64_t> lengths;
  for (const Ballot& ballot : ballots_)
    lengths.push_back(static_cast<std::int64_t>(ballot.numbers[0]));
  OptimizerAccess::protocol(optimizer_).in_collective(saving_checkpoint, [&] {
    reports_ = gather_.run(report_, lengths);
  });
}

void SaveTask::cast() {
  Ballot ballot{.ready = main_thread_.is_ready()};
  if (ballot.ready) {
    ballot.failed = error_ != nullptr;
    ballot.numbers = numbers_;
  }
  OptimizerAccess::protocol(optimizer_).in_collective(following_save, [&] {
    vote_.cast(following_save, ballot);
  });
}

/// True if all ranks were ready when the vote was cast.
bool SaveTask::collect() {
  OptimizerAccess::protocol(optimizer_).in_collective(following_save, [&] {
    ballots_ = vote_.collect();
  });
  return std::ranges::all_of(ballots_, &Ballot::ready);
}

bool SaveTask::advance(bool waits) {
  OptimizerAccess::protocol(optimizer_).check_usable();
  const bool is_read_later = vote_.lags() && !waits;
  for (;;) {
    if (!vote_.is_cast()) {
      cast();
      if (is_read_later) return false;
    }
    if (!collect()) {
      if (is_read_later) cast();
      return false;
    }
    if (main_thread_.is_closed()) return true;
    main_thread_.run();
    if (over_) return true;
  }
}

void SaveTask::wait() {
  using std::chrono::milliseconds;
  constexpr milliseconds longest(100);
  for (milliseconds pause(1); !advance(true); pause = std::min(2 * pause, longest))
    main_thread_.wait_for(pause);
}

void SaveTask::finish() {
  thread_.join();
  if (!committed_) return;
  CheckpointLineage& lineage = OptimizerAccess::lineage(optimizer_);
  lineage.latest = pending_->save();
  lineage.passed_over.erase(folder_);
}

std::filesystem::path SaveTask::result() const {
  if (thrown_) std::rethrow_exception(thrown_);
  return folder_;
}

void SaveTask::count(std::int64_t bytes) {
  if (cancelled_) throw std::runtime_error("the save was cancelled");
  written_ += bytes;
  touch();
}

void SaveTask::touch() { moved_ = steady_clock::now(); }

SaveProgress SaveTask::progress() const {
  const bool works = begun_ == yes && !main_thread_.is_ready();
  const std::chrono::duration<double> still = steady_clock::now() - moved_.load();
  return {.unfinished = 1,
          .written = written_,
          .bytes = bytes_,
          .stalled = works ? std::max(still.count(), 0.0) : 0.0};
}

std::unique_ptr<SaveTask> agree_on_save(Optimizer& optimizer, const std::function<Snapshot()>& take,
                                        const std::filesystem::path& directory,
                                        const SaveOptions& options,
                                        const std::function<void(const SaveTask&)>& check) {
  std::unique_ptr<SaveTask> task;
  StepProtocol& protocol = OptimizerAccess::protocol(optimizer);
  protocol.check_usable();
  protocol.vote(saving_checkpoint, "request", [&] {
    task = std::make_unique<SaveTask>(optimizer, take(), directory, options);
    check(*task);
    return task->request();
  });
  return task;
}

}  // namespace shampoo::checkpoint

namespace shampoo {

std::filesystem::path save(Optimizer& optimizer, const std::filesystem::path& directory,
                           const UserState& user, const SaveOptions& options) {
  OptimizerAccess::protocol(optimizer).require_training("save");
  const bool in_host_memory = OptimizerAccess::backend(optimizer).memory_kind() == MemoryKind::host;
  const Contents contents = in_host_memory ? Contents::borrowed : Contents::copied;
  const auto task = checkpoint::agree_on_save(
      optimizer, [&] { return take_snapshot(optimizer, user, options.derived, contents); },
      directory, options, [](const checkpoint::SaveTask&) {});
  task->begin();
  task->wait();
  task->finish();
  return task->result();
}

}  // namespace shampoo
