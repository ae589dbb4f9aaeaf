// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <thread>
#include <utility>

#include "distributor/system/thread_without_signals.h"
#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/main_thread_executor.h"
#include "shampoo/checkpoint/save_task.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo {

using checkpoint::MainThreadExecutor;
using checkpoint::SaveTask;

/// A save on a thread of its own.
class AsyncCheckpointer::BackgroundSave {
 public:
  BackgroundSave(Optimizer& optimizer, Snapshot snapshot, const std::filesystem::path& directory,
                 const SaveOptions& options)
      : task(optimizer, std::move(snapshot), directory, options) {}

  ~BackgroundSave() {
    main_thread.cancel();
    if (thread_.joinable()) thread_.join();
  }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// The thread comes as far as its first collective, which waits its turn.
  void begin() {
    thread_ = thread_without_signals([this] {
      try {
        folder_ = task.run(&main_thread);
      } catch (...) {
        thrown_ = std::current_exception();
      }
      main_thread.close();
    });
  }

  /// The folder, once the executor is closed.
  std::filesystem::path result() {
    thread_.join();
    if (thrown_) std::rethrow_exception(thrown_);
    return folder_;
  }

  SaveTask task;
  MainThreadExecutor main_thread;

 private:
  std::filesystem::path folder_;
  std::exception_ptr thrown_;
  std::thread thread_;
};

AsyncCheckpointer::AsyncCheckpointer(Optimizer& optimizer, const AsyncCheckpointerOptions& options)
    : optimizer_(optimizer), options_(options) {}
AsyncCheckpointer::~AsyncCheckpointer() = default;

void AsyncCheckpointer::start(const std::filesystem::path& directory, const UserState& user,
                              const SaveOptions& options) {
  require_room();
  add(checkpoint::take_snapshot_together(optimizer_, user, options.derived, Contents::copied),
      directory, options);
}

void AsyncCheckpointer::start(Snapshot snapshot, const std::filesystem::path& directory,
                              const SaveOptions& options) {
  require_room();
  add(std::move(snapshot), directory, options);
}

/// All ranks have as many saves under way.
void AsyncCheckpointer::require_room() {
  advance(false);
  if (!saves_.empty() && options_.while_saving == WhileSaving::refuse)
    throw std::logic_error(
        "AsyncCheckpointer: another save is under way; wait() for it, or let saves queue");
}

void AsyncCheckpointer::add(Snapshot snapshot, const std::filesystem::path& directory,
                            const SaveOptions& options) {
  saves_.push_back(
      std::make_unique<BackgroundSave>(optimizer_, std::move(snapshot), directory, options));
  try {
    OptimizerAccess::protocol(optimizer_).vote(saving_checkpoint, "start", [&] {
      saves_.back()->begin();
      return std::string();
    });
  } catch (...) {
    saves_.pop_back();
    throw;
  }
}

/// Runs the collectives that the threads of all ranks wait for. Each depends only on what the ranks
/// have agreed on before, so it is the same one on all of them.
void AsyncCheckpointer::advance(bool waits) {
  while (!saves_.empty()) {
    MainThreadExecutor& executor = saves_.front()->main_thread;
    if (waits) executor.wait();
    StepProtocol& protocol = OptimizerAccess::protocol(optimizer_);
    if (!protocol.all_ranks(following_save, executor.is_ready())) return;
    if (!executor.is_closed()) {
      executor.run();
      continue;
    }
    const std::unique_ptr<BackgroundSave> save = std::move(saves_.front());
    saves_.pop_front();
    folders_.push_back(save->result());
  }
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

SaveProgress AsyncCheckpointer::progress() const {
  if (saves_.empty()) return {};
  const SaveTask& task = saves_.front()->task;
  return {saves_.size(), task.written(), task.bytes()};
}

}  // namespace shampoo
