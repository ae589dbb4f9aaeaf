// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/collective_monitor.h"

#include <algorithm>
#include <new>
#include <utility>

#include "distributor/rank_list.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo {

using std::chrono::milliseconds;

CollectiveMonitor::CollectiveMonitor(FailureRegistry registry, std::function<void()> interrupt)
    : registry_(std::move(registry)),
      interrupt_(std::move(interrupt)),
      thread_(thread_without_signals([this] { run(); })) {}

CollectiveMonitor::~CollectiveMonitor() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// Wakes the thread only from an idle time: in training it looks at the clock about once per
/// second, and finds another collective each time.
void CollectiveMonitor::begin(const CollectiveCall& call, milliseconds deadline) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    call_ = call;
    start_ = Clock::now();
    wake = sleeps_ || deadline < deadline_;
    deadline_ = deadline;
  }
  if (wake) changed_.notify_all();
}

void CollectiveMonitor::end() {
  const std::lock_guard lock(mutex_);
  call_.ticket = 0;
}

std::string CollectiveMonitor::reason() {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void CollectiveMonitor::run() noexcept {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    sleeps_ = true;
    changed_.wait(lock, [&] { return is_stopping_ || (call_.ticket > 0 && reason_.empty()); });
    sleeps_ = false;
    while (!is_stopping_ && call_.ticket > 0 && reason_.empty()) {
      try {
        watch(lock);
      } catch (const std::bad_alloc&) {
        if (!lock.owns_lock()) lock.lock();
        if (call_.ticket > 0) interrupt("out of memory");  // so short that it needs none
      }
    }
  }
}

void CollectiveMonitor::watch(std::unique_lock<std::mutex>& lock) {
  const CollectiveCall call = call_;
  const milliseconds deadline = deadline_, patience = comparison_patience(deadline);
  const Clock::time_point start = start_;
  const auto is_over = [&] { return is_stopping_ || call_.ticket != call.ticket; };
  changed_.wait_until(lock, start + patience, [&] { return is_stopping_ || deadline_ < deadline; });
  if (is_over() || deadline_ != deadline) return;

  lock.unlock();
  const std::string mismatch = registry_.enter_call(call, patience);
  lock.lock();
  if (!mismatch.empty() && !is_over()) interrupt(mismatch);
  if (reason_.empty()) await_end(lock, call.ticket);
  lock.unlock();
  registry_.leave_call();
  lock.lock();
}

/// The end of a collective notifies nobody: looks out for it now and then.
void CollectiveMonitor::await_end(std::unique_lock<std::mutex>& lock, std::uint64_t ticket) {
  const milliseconds deadline = deadline_;
  const Clock::time_point end = start_ + deadline;
  const auto is_over = [&] { return is_stopping_ || call_.ticket != ticket; };
  Clock::time_point next_request = Clock::now();
  while (!is_over() && reason_.empty()) {
    const Clock::time_point now = Clock::now();
    if (now >= end) {
      interrupt("not complete within " + seconds_text(deadline));
    } else if (now >= next_request) {
      lock.unlock();
      const std::string failure = registry_.remote_abort_reason();
      lock.lock();
      if (!failure.empty() && !is_over()) interrupt(failure);
      next_request = Clock::now() + failure_detection_timeout(deadline) / 4;
    } else {
      changed_.wait_until(lock, std::min(end, now + milliseconds(100)));
    }
  }
}

/// With the lock held, so that the collective is not over.
void CollectiveMonitor::interrupt(const std::string& reason) {
  reason_ = reason;
  interrupt_();
}

}  // namespace shampoo
