// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

namespace shampoo::checkpoint {

/// Hands tasks of a background thread to the thread that is allowed to call collectives.
class MainThreadExecutor {
 public:
  // For the background thread.

  /// Waits until the main thread has run the task, and throws what it threw; std::runtime_error
  /// after cancel().
  void submit(const std::function<void()>& task);
  /// No task will follow.
  void close();

  // For the main thread.

  /// There is a task, or none will follow.
  bool is_ready() const;
  bool is_closed() const;
  /// Waits for is_ready(), for no longer than this.
  void wait_for(std::chrono::milliseconds longest) const;
  /// Runs the task, if there is one; submit() throws what it throws.
  void run();
  /// From now on, submit() throws.
  void cancel();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  const std::function<void()>* task_ = nullptr;
  std::exception_ptr thrown_;
  bool closed_ = false, cancelled_ = false;
};

}  // namespace shampoo::checkpoint
