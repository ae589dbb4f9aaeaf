// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <latch>
#include <thread>
#include <type_traits>
#include <vector>

namespace shampoo::kernels {

/// Threads that work through a list of tasks together with the caller, in the FloatingMode. Nothing
/// is allocated after construction. In a forked child, where there are no threads, the caller works
/// alone.
class Pool {
 public:
  /// `threads` >= 1, the caller included. Waits until all of them run: a thread that starts
  /// allocates.
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls body(task, worker) for every task in [0, tasks), with worker in [0, size()) and never
  /// twice at once with the same worker; waits for all of them. Tasks start in order, `grain` at a
  /// time. The first exception of a task is rethrown; tasks that had not started are then dropped.
  /// Calls are neither concurrent nor nested.
  template <typename Body>
  void run(std::int64_t tasks, std::int64_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    const auto call = [](const void* context, std::int64_t task, int worker) {
      (*static_cast<Plain*>(const_cast<void*>(context)))(task, worker);
    };
    run_tasks({call, &body, tasks, grain < 1 ? 1 : grain});
  }

 private:
  struct Job {
    void (*call)(const void* context, std::int64_t task, int worker) = nullptr;
    const void* context = nullptr;
    std::int64_t tasks = 0, grain = 1;
  };

  void run_tasks(const Job& job);
  void work(int worker);
  void serve(int worker);
  void stop();

  Job job_;
  std::exception_ptr error_;
  alignas(64) std::atomic<std::int64_t> next_ = 0;
  /// Number of the job, whether workers may still join it, and how many are inside.
  alignas(64) std::atomic<std::uint32_t> state_ = 0;
  std::atomic<bool> failed_ = false, stopped_ = false;
  std::latch starting_;
  pid_t process_;
  std::vector<std::jthread> threads_;
};

}  // namespace shampoo::kernels
