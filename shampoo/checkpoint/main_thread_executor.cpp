// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/main_thread_executor.h"

#include <stdexcept>
#include <utility>

namespace shampoo::checkpoint {

void MainThreadExecutor::submit(const std::function<void()>& task) {
  std::unique_lock lock(mutex_);
  task_ = &task;
  changed_.notify_all();
  changed_.wait(lock, [&] { return task_ == nullptr || cancelled_; });
  if (std::exchange(task_, nullptr)) throw std::runtime_error("the save was cancelled");
  if (const std::exception_ptr thrown = std::exchange(thrown_, nullptr))
    std::rethrow_exception(thrown);
}

void MainThreadExecutor::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool MainThreadExecutor::is_ready() const {
  const std::lock_guard lock(mutex_);
  return task_ != nullptr || closed_;
}

bool MainThreadExecutor::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void MainThreadExecutor::wait_for(std::chrono::milliseconds longest) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest, [&] { return task_ != nullptr || closed_; });
}

void MainThreadExecutor::run() {
  // The background thread waits, so the task stays where it is.
  const std::function<void()>* task = nullptr;
  {
    const std::lock_guard lock(mutex_);
    task = task_;
  }
  if (task == nullptr) return;
  std::exception_ptr thrown;
  try {
    (*task)();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  thrown_ = thrown;
  task_ = nullptr;
  changed_.notify_all();
}

void MainThreadExecutor::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

}  // namespace shampoo::checkpoint
