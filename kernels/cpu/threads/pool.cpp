// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/threads/pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "kernels/cpu/floating_mode.h"

namespace shampoo::kernels {

namespace {

// Layout of the state: number of the job | open | workers inside.
constexpr std::uint32_t inside = (1u << 11) - 1;
constexpr std::uint32_t open = 1u << 11;
constexpr std::uint32_t next_job = 1u << 12;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until done(state) holds: first awake, because jobs follow each other within microseconds
/// in a step and a sleeping thread takes longer than most jobs to come back.
template <typename Done>
std::uint32_t wait_until(const std::atomic<std::uint32_t>& state, Done done) {
  using Clock = std::chrono::steady_clock;
  constexpr auto awake = std::chrono::microseconds(40);
  constexpr int pauses_per_look = 64;

  std::uint32_t seen = state.load(std::memory_order_acquire);
  const auto start = Clock::now();
  while (!done(seen)) {
    for (int i = 0; i < pauses_per_look && !done(seen); ++i) {
      pause();
      seen = state.load(std::memory_order_acquire);
    }
    if (Clock::now() - start > awake) break;
  }
  while (!done(seen)) {
    state.wait(seen, std::memory_order_acquire);
    seen = state.load(std::memory_order_acquire);
  }
  return seen;
}

}  // namespace

Pool::Pool(int threads) : starting_(threads - 1), process_(getpid()) {
  threads_.reserve(static_cast<std::size_t>(threads) - 1);
  try {
    for (int worker = 1; worker < threads; ++worker)
      threads_.emplace_back([this, worker] { serve(worker); });
  } catch (...) {  // those that exist are waited for
    stop();
    throw;
  }
  starting_.wait();
}

Pool::~Pool() { stop(); }

void Pool::stop() {
  if (getpid() != process_) {
    // A forked child has none of the threads, and may neither join nor detach them.
    std::make_unique<std::vector<std::jthread>>(std::move(threads_)).release();
    return;
  }
  stopped_ = true;
  state_ += next_job;
  state_.notify_all();
}

void Pool::run_tasks(const Job& job) {
  if (job.tasks <= 0) return;
  const FloatingMode mode;
  if (threads_.empty() || job.tasks <= job.grain) {
    for (std::int64_t task = 0; task < job.tasks; ++task) job.call(job.context, task, 0);
    return;
  }

  job_ = job;
  next_.store(0, std::memory_order_relaxed);
  state_.store(((state_.load(std::memory_order_relaxed) & ~(inside | open)) + next_job) | open,
               std::memory_order_release);
  state_.notify_all();
  work(0);

  // Workers that have not come yet are not waited for.
  state_.fetch_and(~open, std::memory_order_acq_rel);
  wait_until(state_, [](std::uint32_t state) { return (state & inside) == 0; });
  if (failed_.load(std::memory_order_acquire)) {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void Pool::work(int worker) {
  try {
    for (;;) {
      const std::int64_t first = next_.fetch_add(job_.grain, std::memory_order_relaxed);
      const std::int64_t last = std::min(first + job_.grain, job_.tasks);
      if (first >= last) return;
      for (std::int64_t task = first; task < last; ++task) job_.call(job_.context, task, worker);
    }
  } catch (...) {
    next_.store(job_.tasks, std::memory_order_relaxed);
    if (!failed_.exchange(true, std::memory_order_acq_rel)) error_ = std::current_exception();
  }
}

void Pool::serve(int worker) {
  const FloatingMode mode;
  starting_.count_down();
  std::uint32_t last = 0;
  for (;;) {
    std::uint32_t state = wait_until(state_, [&](std::uint32_t now) {
      return now / next_job != last && ((now & open) != 0 || stopped_);
    });
    if (stopped_) return;
    if (!state_.compare_exchange_strong(state, state + 1, std::memory_order_acq_rel)) continue;

    last = state / next_job;
    work(worker);
    // Only the caller waits for the last one to leave.
    if (((state_.fetch_sub(1, std::memory_order_acq_rel) - 1) & (inside | open)) == 0)
      state_.notify_all();
  }
}

}  // namespace shampoo::kernels
