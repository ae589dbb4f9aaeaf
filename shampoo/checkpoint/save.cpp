// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/save_task.h"
#include "shampoo/state/optimizer_access.h"
#include "shampoo/validation/option_names.h"

namespace shampoo {

template <>
struct OptionNames<WhileSaving> {
  static constexpr std::array<std::string_view, 3> all{"refuse", "skip", "queue"};
};

namespace {

using checkpoint::SaveTask;

/// A save whose arguments are right on all ranks and equal: take() gives its snapshot, check() may
/// throw. Collective; throws the same on all ranks.
std::unique_ptr<SaveTask> agree_on_save(const Optimizers& optimizers,
                                        const std::function<Snapshot()>& take,
                                        const std::filesystem::path& directory,
                                        const SaveOptions& options,
                                        const std::function<void(const SaveTask&)>& check) {
  std::unique_ptr<SaveTask> task;
  StepProtocol& protocol = OptimizerAccess::protocol(optimizers.first());
  protocol.join_usable();
  protocol.vote(saving_checkpoint, "request", [&] {
    task = std::make_unique<SaveTask>(optimizers, take(), directory, options);
    check(*task);
    return task->request();
  });
  return task;
}

void require_training(const Optimizers& optimizers) {
  for (const NamedOptimizer& named : optimizers.all())
    OptimizerAccess::protocol(named.optimizer).require_training("save");
}

}  // namespace

std::filesystem::path save(const Optimizers& optimizers, const std::filesystem::path& directory,
                           const UserState& user, const SaveOptions& options) {
  const auto take = [&] {
    require_training(optimizers);
    return take_snapshot(optimizers, user, options.derived, Contents::borrowed);
  };
  const auto task = agree_on_save(optimizers, take, directory, options, [](const SaveTask&) {});
  task->begin();
  task->wait();
  task->finish();
  return task->result();
}

AsyncCheckpointer::AsyncCheckpointer(const Optimizers& optimizers,
                                     const AsyncCheckpointerOptions& options)
    : optimizers_(optimizers), options_(options) {
  require_enumerator("AsyncCheckpointer: while_saving", options.while_saving);
  if (options.max_queued < 0)
    throw std::invalid_argument("AsyncCheckpointer: max_queued: must be >= 0, got " +
                                std::to_string(options.max_queued));
}

AsyncCheckpointer::~AsyncCheckpointer() = default;

bool AsyncCheckpointer::start(const std::filesystem::path& directory, const UserState& user,
                              const SaveOptions& options) {
  if (!make_room()) return false;
  const auto take = [&] {
    require_training(optimizers_);
    return take_snapshot(optimizers_, user, options.derived, Contents::copied,
                         [&](const Optimizer& optimizer) { return free_memory(optimizer); });
  };
  add(take, directory, options);
  return true;
}

bool AsyncCheckpointer::start(Snapshot snapshot, const std::filesystem::path& directory,
                              const SaveOptions& options) {
  if (!make_room()) return false;
  add([&] { return std::move(snapshot); }, directory, options);
  return true;
}

/// Returns false if the save is skipped. All ranks have as many saves under way.
bool AsyncCheckpointer::make_room() {
  advance(false);
  if (saves_.empty()) return true;
  if (options_.while_saving == WhileSaving::skip) return false;
  if (options_.while_saving == WhileSaving::refuse)
    throw std::logic_error(
        "AsyncCheckpointer: another save is under way; wait() for it, or let saves queue or be "
        "skipped by AsyncCheckpointerOptions::while_saving");
  while (saves_.size() > static_cast<std::size_t>(options_.max_queued)) {
    saves_.front()->wait();
    finish_first();
  }
  return true;
}

void AsyncCheckpointer::add(const std::function<Snapshot()>& take,
                            const std::filesystem::path& directory, const SaveOptions& options) {
  saves_.push_back(nullptr);
  try {
    saves_.back() =
        agree_on_save(optimizers_, take, directory, options, [&](const SaveTask& added) {
          for (const auto& other : saves_)
            if (other && other->folder() == added.folder() && !options.replace)
              throw std::invalid_argument("save: " + added.folder().string() +
                                          " is being saved; SaveOptions::replace would replace it");
          added.require_replaceable();
        });
  } catch (...) {
    saves_.pop_back();
    throw;
  }
  if (saves_.size() == 1) saves_.front()->begin();
}

void AsyncCheckpointer::advance(bool waits) {
  while (!saves_.empty()) {
    SaveTask& first = *saves_.front();
    if (waits)
      first.wait();
    else if (!first.advance(false))
      return;
    finish_first();
  }
}

/// Throws what the save has thrown.
void AsyncCheckpointer::finish_first() {
  const std::unique_ptr<SaveTask> save = std::move(saves_.front());
  saves_.pop_front();
  save->finish();
  if (!saves_.empty()) saves_.front()->begin();
  folders_.push_back(save->result());
}

std::shared_ptr<SnapshotMemory> AsyncCheckpointer::free_memory(const Optimizer& optimizer) {
  kernels::Backend& backend = OptimizerAccess::backend(optimizer);
  for (const auto& memory : memories_)
    if (memory.use_count() == 1 && &memory->backend() == &backend) return memory;
  return memories_.emplace_back(std::make_shared<SnapshotMemory>(backend));
}

std::optional<std::filesystem::path> AsyncCheckpointer::poll() {
  advance(false);
  if (folders_.empty()) return std::nullopt;
  auto folder = std::move(folders_.front());
  folders_.pop_front();
  return folder;
}

std::optional<std::filesystem::path> AsyncCheckpointer::wait() {
  advance(true);
  if (folders_.empty()) return std::nullopt;
  auto folder = std::move(folders_.back());
  folders_.clear();
  return folder;
}

void AsyncCheckpointer::cancel() {
  if (saves_.empty()) return;
  saves_.resize(1);
  saves_.front()->cancel();
  saves_.front()->wait();
  try {
    finish_first();
  } catch (const std::exception&) {  // that it was cancelled, or what it failed with before
  }
}

SaveProgress AsyncCheckpointer::progress() const {
  if (saves_.empty()) return {};
  SaveProgress progress = saves_.front()->progress();
  progress.unfinished = saves_.size();
  return progress;
}

}  // namespace shampoo
