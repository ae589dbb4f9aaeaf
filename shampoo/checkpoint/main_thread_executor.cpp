// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/main_thread_executor.h"

#include <stdexcept>
#include <utility>

namespace shampoo::checkpoint {

void Errand::ask(const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  changed_.notify_all();
  changed_.wait(lock, [&] { return work_ == nullptr || given_up_; });
  const bool undone = std::exchange(work_, nullptr) != nullptr;
  if (undone) throw std::runtime_error("the save was given up");
  if (const std::exception_ptr thrown = std::exchange(thrown_, nullptr))
    std::rethrow_exception(thrown);
}

void Errand::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

bool Errand::is_ready() const {
  const std::lock_guard lock(mutex_);
  return work_ != nullptr || finished_;
}

bool Errand::is_finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

void Errand::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return work_ != nullptr || finished_; });
}

void Errand::run() {
  // The other thread waits, so the work stays where it is.
  const std::function<void()>* work = nullptr;
  {
    const std::lock_guard lock(mutex_);
    work = work_;
  }
  if (work == nullptr) return;
  std::exception_ptr thrown;
  try {
    (*work)();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  thrown_ = thrown;
  work_ = nullptr;
  changed_.notify_all();
}

void Errand::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
}

}  // namespace shampoo::checkpoint
