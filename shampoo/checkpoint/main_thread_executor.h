// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

namespace shampoo::checkpoint {

/// Work that one thread leaves to another: the one that may call collectives.
class Errand {
 public:
  // The thread that asks.

  /// Returns when the work has been run, and throws what it threw; std::runtime_error if it was
  /// given up.
  void ask(const std::function<void()>& work);
  /// There will be no more.
  void finish();

  // The thread that runs.

  /// Whether there is work, or will be none.
  bool is_ready() const;
  bool is_finished() const;
  /// Waits until there is work, or will be none.
  void wait() const;
  /// Runs the work, if there is some; what it throws is the other thread's.
  void run();
  /// From now on, ask() throws.
  void give_up();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  std::exception_ptr thrown_;
  bool finished_ = false, given_up_ = false;
};

}  // namespace shampoo::checkpoint
