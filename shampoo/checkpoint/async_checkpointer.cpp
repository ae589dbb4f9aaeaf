// SPDX-License-Identifier: Apache-2.0
#include "shampoo/async_checkpointer.h"

#include <atomic>
#include <deque>
#include <stdexcept>
#include <thread>
#include <utility>

#include "distributor/system/thread_without_signals.h"
#include "shampoo/checkpoint/main_thread_executor.h"
#include "shampoo/checkpoint/save_job.h"

namespace shampoo {

/// One save.
class Saver::Job {
 public:
  Job(Optimizer& optimizer, Snapshot snapshot, checkpoint::SavePlace place,
      const SaveOptions& options)
      : optimizer_(optimizer),
        snapshot_(std::move(snapshot)),
        place_(std::move(place)),
        options_(options),
        bytes_(snapshot_.bytes()) {}

  ~Job() {
    errand_.give_up();
    if (thread_.joinable()) thread_.join();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The thread comes as far as the first errand, which waits its turn.
  void begin() {
    thread_ = thread_without_signals([this] {
      try {
        folder_ = checkpoint::run_save(
            optimizer_, snapshot_, place_, options_,
            [this](const std::function<void()>& work) { errand_.ask(work); }, written_);
      } catch (...) {
        thrown_ = std::current_exception();
      }
      errand_.finish();
    });
  }

  checkpoint::Errand& errand() { return errand_; }
  std::int64_t written() const { return written_; }
  std::int64_t bytes() const { return bytes_; }

  /// The folder, after the end of the errand.
  std::filesystem::path result() {
    thread_.join();
    if (thrown_) std::rethrow_exception(thrown_);
    return folder_;
  }

 private:
  Optimizer& optimizer_;
  const Snapshot snapshot_;
  const checkpoint::SavePlace place_;
  const SaveOptions options_;
  const std::int64_t bytes_;
  std::atomic<std::int64_t> written_ = 0;
  checkpoint::Errand errand_;
  std::filesystem::path folder_;
  std::exception_ptr thrown_;
  std::thread thread_;
};

class Saver::Jobs {
 public:
  Jobs(Optimizer& optimizer, const SaverOptions& options)
      : optimizer_(optimizer), options_(options) {}

  Optimizer& optimizer() { return optimizer_; }

  /// All ranks have as many saves under way.
  void require_room() {
    advance(false);
    if (!jobs_.empty() && options_.while_saving == WhileSaving::refuse)
      throw std::logic_error("Saver: another save is under way; wait() for it, or let saves queue");
  }

  void add(Snapshot snapshot, const std::filesystem::path& root, const SaveOptions& options) {
    checkpoint::SavePlace place = checkpoint::agree_on_save(optimizer_, snapshot, root, options);
    jobs_.push_back(
        std::make_unique<Job>(optimizer_, std::move(snapshot), std::move(place), options));
    try {
      OptimizerAccess::protocol(optimizer_).vote(saving_checkpoint, "start", [&] {
        jobs_.back()->begin();
        return std::string();
      });
    } catch (...) {
      jobs_.pop_back();
      throw;
    }
  }

  /// Runs what the threads of all ranks have asked for. What they ask for follows from what they
  /// were told together, so it is the same on all of them.
  void advance(bool waits) {
    while (!jobs_.empty()) {
      checkpoint::Errand& errand = jobs_.front()->errand();
      if (waits) errand.wait();
      StepProtocol& protocol = OptimizerAccess::protocol(optimizer_);
      if (!protocol.everywhere(following_save, errand.is_ready())) return;
      if (errand.is_finished())
        conclude();
      else
        errand.run();
    }
  }

  std::optional<std::filesystem::path> next_folder() {
    if (folders_.empty()) return std::nullopt;
    auto folder = std::move(folders_.front());
    folders_.pop_front();
    return folder;
  }

  std::optional<std::filesystem::path> last_folder() {
    if (folders_.empty()) return std::nullopt;
    auto folder = std::move(folders_.back());
    folders_.clear();
    return folder;
  }

  SaveProgress progress() const {
    if (jobs_.empty()) return {};
    return {jobs_.size(), jobs_.front()->written(), jobs_.front()->bytes()};
  }

 private:
  void conclude() {
    const std::unique_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    folders_.push_back(job->result());
  }

  Optimizer& optimizer_;
  SaverOptions options_;
  std::deque<std::unique_ptr<Job>> jobs_;      ///< the first one is served, the others wait for it
  std::deque<std::filesystem::path> folders_;  ///< complete, not told of
};

Saver::Saver(Optimizer& optimizer, const SaverOptions& options)
    : jobs_(std::make_unique<Jobs>(optimizer, options)) {}
Saver::~Saver() = default;

void Saver::start(const std::filesystem::path& root, const Extras& extras,
                  const SaveOptions& options) {
  jobs_->require_room();
  jobs_->add(
      checkpoint::agreed_snapshot(jobs_->optimizer(), extras, options.derived, Contents::copied),
      root, options);
}

void Saver::start(Snapshot snapshot, const std::filesystem::path& root,
                  const SaveOptions& options) {
  jobs_->require_room();
  jobs_->add(std::move(snapshot), root, options);
}

std::optional<std::filesystem::path> Saver::poll() {
  jobs_->advance(false);
  return jobs_->next_folder();
}

std::optional<std::filesystem::path> Saver::wait() {
  jobs_->advance(true);
  return jobs_->last_folder();
}

SaveProgress Saver::progress() const { return jobs_->progress(); }

}  // namespace shampoo
