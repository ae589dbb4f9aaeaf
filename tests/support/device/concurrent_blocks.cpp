// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/concurrent_blocks.h"

#include <pthread.h>

#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <variant>
#include <vector>

#include "kernels/cpu/floating_mode.h"

namespace shampoo::test {

namespace {

/// The thread sanitizer knows this one.
class Barrier {
 public:
  explicit Barrier(int count) { pthread_barrier_init(&barrier_, nullptr, count); }
  ~Barrier() { pthread_barrier_destroy(&barrier_); }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  void wait() { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

/// One thread of a block.
template <int Count>
class OneThread {
 public:
  static constexpr int count = Count;

  OneThread(std::int64_t index, int thread, Barrier& barrier)
      : index_(index), thread_(thread), barrier_(barrier) {}

  std::int64_t index() const { return index_; }

  template <typename Body>
  void each(Body&& body) {
    body(thread_);
  }

  template <typename Body>
  void each_warp(Body&& body) {
    if (thread_ % 32 == 0) body(thread_ / 32);
  }

  void sync() { barrier_.wait(); }

  template <typename T>
  class PerThread {
   public:
    T& operator[](int) { return value_; }

   private:
    T value_ = {};
  };

  template <typename T>
  using PerWarp = PerThread<T>;

 private:
  std::int64_t index_;
  int thread_;
  Barrier& barrier_;
};

template <typename Program>
void run(std::int64_t blocks, const Program& program) {
  constexpr int at_a_time = 2, count = Program::threads;
  struct Slot {
    std::unique_ptr<typename Program::Shared> shared = std::make_unique<typename Program::Shared>();
    Barrier barrier{count};
  };
  Slot slots[at_a_time];
  std::vector<std::jthread> threads;
  for (int slot = 0; slot < at_a_time && slot < blocks; ++slot)
    for (int thread = 0; thread < count; ++thread)
      threads.emplace_back([&, slot, thread] {
        const kernels::FloatingMode mode;
        auto& [shared, barrier] = slots[slot];
        for (std::int64_t index = slot; index < blocks; index += at_a_time) {
          if (thread == 0) std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(*shared));
          barrier.wait();
          OneThread<count> block(index, thread, barrier);
          program(block, *shared);
          barrier.wait();
        }
      });
}

}  // namespace

void run_blocks_concurrently(std::int64_t blocks, const kernels::cuda::Kernel& kernel) {
  std::visit([&](const auto& program) { run(blocks, program); }, kernel);
}

}  // namespace shampoo::test
