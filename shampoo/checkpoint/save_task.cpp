// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/save_task.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "distributor/system/system_error.h"
#include "distributor/system/thread_without_signals.h"
#include "shampoo/checkpoint/named_optimizers.h"
#include "shampoo/checkpoint/shard_writer.h"
#include "shampoo/checkpoint/storage/attempts.h"
#include "shampoo/checkpoint/storage/checkpoint_order.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint_directory.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo::checkpoint {
namespace {

using std::chrono::steady_clock;

std::int64_t step_of_save(const Snapshot& snapshot, const SaveOptions& options) {
  const std::int64_t step = options.step.value_or(snapshot.step());
  require_step_number(step);
  if (options.keep_last < 0)
    throw std::invalid_argument("save: keep_last: must be >= 0, got " +
                                std::to_string(options.keep_last));
  return step;
}

/// A snapshot of before is of the optimizers that are saved, as far as their names tell.
void require_same(const Snapshot& snapshot, const Optimizers& optimizers) {
  validate(optimizers);
  const std::vector<SavedOptimizer>& taken = snapshot.data().optimizers;
  const bool is_same = optimizers.are_named()
                           ? std::ranges::equal(taken, optimizers.all(), {}, &SavedOptimizer::name,
                                                &NamedOptimizer::name)
                           : taken.empty();
  if (!is_same) throw std::invalid_argument("save: the snapshot is not of these optimizers");
}

}  // namespace

SaveTask::SaveTask(const Optimizers& optimizers, Snapshot snapshot,
                   const std::filesystem::path& directory, const SaveOptions& options)
    : optimizer_(optimizers.first()),
      lineage_(optimizers),
      snapshot_(std::move(snapshot)),
      options_(options),
      directory_(whole_path(directory)),
      given_directory_(directory.string()),
      step_(step_of_save(snapshot_, options)),
      bytes_(snapshot_.bytes()),
      folder_(directory_ / folder_name(step_)),
      vote_(OptimizerAccess::backend(optimizer_), OptimizerAccess::communicator(optimizer_)),
      gather_(OptimizerAccess::backend(optimizer_), OptimizerAccess::communicator(optimizer_)) {
  require_same(snapshot_, optimizers);
  if (options.replace || lineage_.passed_over(folder_)) existing_ = Existing::replace;
}

SaveTask::~SaveTask() {
  cancel();
  if (thread_.joinable()) thread_.join();
  try {
    discard();
    lineage_.leave(stale_);
  } catch (const std::bad_alloc&) {  // nobody learns what is stale
  }
}

std::string SaveTask::request() const {
  return "directory: " + given_directory_ + "\nstep: " + std::to_string(step_) +
         "\nkeep_last: " + std::to_string(options_.keep_last) +
         "\nreplace: " + (options_.replace ? "true" : "false") + "\n" +
         request_text(snapshot_.data());
}

void SaveTask::require_replaceable() const {
  if (leads()) is_replaceable(directory_, step_, existing_);
}

void SaveTask::begin() {
  lineage_.begin();
  start(&SaveTask::create);
}

void SaveTask::start(Work stage) {
  if (thread_.joinable()) thread_.join();
  stage_ = stage;
  numbers_ = {};
  error_ = nullptr;
  touch();
  try {
    std::packaged_task<void()> work([this] { run(); });
    work_ = work.get_future();
    thread_ = thread_without_signals(std::move(work));
  } catch (...) {
    work_ = {};
    error_ = std::current_exception();
  }
}

void SaveTask::run() {
  try {
    (this->*stage_)();
  } catch (...) {
    error_ = std::current_exception();
  }
  touch();
}

bool SaveTask::is_ready() const {
  return !work_.valid() || work_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void SaveTask::create() {
  if (!leads()) return;
  list();
  numbers_ = random_bits();
  pending_.emplace(directory_, step_, save_id_of(numbers_), existing_);
  pending_->create();
}

/// Finds a directory that cannot be read before anything is written, and removes what was stale at
/// the last load, or could not be removed, and still is.
void SaveTask::list() try {
  NewestFirst checkpoints(directory_);
  (void)checkpoints.next_sequence();
  for (const std::filesystem::path& stale : checkpoints.stale()) {
    std::error_code ignored;  // it is in nobody's way
    if (std::ranges::find(lineage_.stale(), stale) != lineage_.stale().end())
      std::filesystem::remove_all(stale, ignored);
  }
} catch (const std::system_error& error) {
  throw system_error(error.code(), "save: needs the first line of every manifest in " +
                                       directory_.string() + ": " + error.what());
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
  Manifest manifest = manifest_of(snapshot_.data(), std::exchange(reports_, {}));
  manifest.save = pending_->save();
  manifest.parent = lineage_.parent();
  manifest.step = pending_->step();
  manifest.sequence = NewestFirst(directory_).next_sequence();
  pending_->commit(manifest);
  // A vote that a rank did not live to see must not remove a complete checkpoint.
  pending_->release();
  committed_ = true;
  touch();
  prune();
}

void SaveTask::discard() {
  if (pending_ && !pending_->discard()) stale_.push_back(pending_->temporary());
}

void SaveTask::prune() try {
  Attempts attempt;
  if (!attempt([&] { pending_->remove_replaced(); })) stale_.push_back(pending_->replaced());
  if (options_.keep_last > 0) attempt([&] { remove_old(); });
  attempt.finish();
} catch (const std::system_error& error) {
  throw system_error(
      error.code(),
      folder_.string() +
          " is complete, but older checkpoints could not be removed: " + error.what());
}

void SaveTask::remove_old() {
  Attempts attempt;
  for (const auto& old : checkpoints_to_prune(directory_, options_.keep_last, lineage_.kept()))
    attempt([&] {
      const std::filesystem::path aside = set_aside(old);
      if (!attempt([&] { remove_aside(aside); })) stale_.push_back(aside);
    });
  attempt.finish();
}

/// All ranks have come to the end of the stage. Returns true if it was the last.
bool SaveTask::go_on() {
  if (stage_ == &SaveTask::discard) return true;
  if (std::ranges::any_of(ballots_, &Ballot::failed)) {
    thrown_ = error_of_all();
    start(&SaveTask::discard);
    return false;
  }
  if (stage_ == &SaveTask::commit) return true;
  if (stage_ == &SaveTask::create) {
    learn_id();
    start(&SaveTask::write);
  } else {
    gather_reports();
    start(&SaveTask::commit);
  }
  return false;
}

std::exception_ptr SaveTask::error_of_all() {
  Communicator& ranks = OptimizerAccess::communicator(optimizer_);
  if (ranks.size() == 1) return error_;
  std::optional<TransferableError> own;
  try {
    if (error_) std::rethrow_exception(error_);
  } catch (...) {
    own = current_error();
  }
  TransferableError joined;
  OptimizerAccess::protocol(optimizer_).in_collective(saving_checkpoint, [&] {
    joined = gather_errors(OptimizerAccess::backend(optimizer_), ranks, own);
  });
  try {
    rethrow(joined);
  } catch (...) {
    return std::current_exception();
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
  Ballot ballot{.ready = is_ready()};
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
  OptimizerAccess::protocol(optimizer_).join_usable();
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
    if (go_on()) return true;
  }
}

void SaveTask::wait() {
  using std::chrono::milliseconds;
  constexpr milliseconds longest(100);
  for (milliseconds pause(1); !advance(true); pause = std::min(2 * pause, longest))
    if (work_.valid()) work_.wait_for(pause);
}

void SaveTask::finish() {
  lineage_.leave(std::exchange(stale_, {}));
  if (committed_) lineage_.finish(pending_->save(), folder_);
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
  const std::chrono::duration<double> still = steady_clock::now() - moved_.load();
  return {.unfinished = 1,
          .written = written_,
          .bytes = bytes_,
          .stalled = is_ready() ? 0.0 : std::max(still.count(), 0.0)};
}

}  // namespace shampoo::checkpoint
