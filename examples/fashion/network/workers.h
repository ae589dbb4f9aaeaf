// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fashion {

/// A fixed team of threads, the caller's included. Task i always runs on thread i mod threads.
class Workers {
 public:
  /// Throws std::invalid_argument unless 1 <= threads <= 1024.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return static_cast<int>(team_.size()) + 1; }

  /// Calls task(0) ... task(count - 1) and waits for all of them. A task does not throw.
  void run(int count, const std::function<void(int)>& task);

 private:
  void serve(int thread);

  std::mutex mutex_;
  std::condition_variable begin_, done_;
  const std::function<void(int)>* task_ = nullptr;
  int count_ = 0;
  int busy_ = 0;
  int round_ = 0;
  bool closing_ = false;
  std::vector<std::thread> team_;
};

}  // namespace fashion
