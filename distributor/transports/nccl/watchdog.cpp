// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/watchdog.h"

#include <algorithm>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/rank_list.h"
#include "distributor/system/backoff.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo {

using std::chrono::milliseconds;

namespace {

/// Time for pending collectives to end after a shutdown.
constexpr milliseconds settle_time{2000};

}  // namespace

Watchdog::Watchdog(NcclHandle& handle, Callbacks callbacks, milliseconds deadline)
    : handle_(handle),
      callbacks_(std::move(callbacks)),
      deadline_(deadline),
      thread_(thread_without_signals([this] { run(); })) {}

bool Watchdog::stop() {
  if (!thread_.joinable()) return !has_leaked_;
  drain();
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (std::unique_ptr<NcclOperation>& operation : operations_) {
    // One whose start failed may be enqueued, unless its communicator was destroyed.
    const bool is_pending =
        operation->state == State::pending ||
        (operation->state == State::recording && !(handle_.is_owned() && handle_.is_shut_down()));
    if (is_pending) {
      static_cast<void>(operation.release());
      has_leaked_ = true;
    } else {
      handle_.api().destroy_event(operation->begin);
      handle_.api().destroy_event(operation->end);
    }
  }
  operations_.clear();
  return !has_leaked_;
}

/// Waits until nothing is pending, or nothing pending can be expected to end.
void Watchdog::drain() {
  const auto end = Clock::now() + deadline_.load() + settle_time;
  std::optional<Clock::time_point> shut_down;
  for (Backoff backoff; Clock::now() < end;) {
    try {
      const std::lock_guard lock(mutex_);
      update();
      if (!oldest_pending()) return;
    } catch (const CommunicationError&) {
      return;  // the device is lost
    }
    backoff.pause();
    if (handle_.is_shut_down() && !shut_down) shut_down = Clock::now();
    if (shut_down && Clock::now() > *shut_down + settle_time) return;
  }
}

NcclOperation& Watchdog::acquire(const CollectiveCall& call, const BufferLease& lease,
                                 bool capturing) {
  const std::lock_guard lock(mutex_);
  if (!capturing) {
    // Ending a lease may free memory, which would invalidate a capture.
    update();
    for (const auto& operation : operations_)
      if (operation->state == State::done && operation->is_waited_for) release(*operation);
  }
  auto found = std::ranges::find(operations_, State::available,
                                 [](const auto& operation) { return operation->state; });
  if (found == operations_.end()) {
    auto made = std::make_unique<NcclOperation>();
    made->begin = handle_.api().make_event();
    made->end = handle_.api().make_event();
    found = operations_.insert(found, std::move(made));
  }
  NcclOperation& operation = **found;
  operation.state = State::recording;
  operation.call = call;
  operation.stream = lease.stream.handle;
  operation.keep_alive = lease.keep_alive;
  return operation;
}

void Watchdog::supervise(NcclOperation& operation, bool capturing) {
  {
    const std::lock_guard lock(mutex_);
    operation.state = capturing ? State::captured : State::pending;
    has_replays_ = has_replays_ || capturing;
  }
  changed_.notify_all();
}

NcclOperation* Watchdog::find(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  for (const auto& operation : operations_)
    if (operation->call.ticket == ticket && !operation->is_waited_for) return operation.get();
  return nullptr;
}

void Watchdog::mark_waited_for(NcclOperation& operation) {
  const std::lock_guard lock(mutex_);
  operation.is_waited_for = true;
  // A graph may be replayed as long as it exists; its creator keeps the buffers alive.
  if (operation.state == State::captured) release(operation);
}

void Watchdog::release(NcclOperation& operation) {
  operation = {.begin = operation.begin, .end = operation.end};
}

const NcclOperation* Watchdog::oldest_pending() const {
  const NcclOperation* first = nullptr;
  for (const auto& operation : operations_)
    if (operation->state == State::pending &&
        (!first || operation->call.ticket < first->call.ticket))
      first = operation.get();
  return first;
}

milliseconds Watchdog::interval() const {
  return std::clamp(deadline_.load() / 20, milliseconds(1), milliseconds(50));
}

const NcclOperation* Watchdog::update() {
  const NcclOperation* overdue = nullptr;
  const auto now = Clock::now();
  for (const auto& operation : operations_) {
    if (operation->state != State::pending) continue;
    if (handle_.api().is_done(operation->end)) {
      operation->state = State::done;
    } else if (!operation->reached) {
      if (handle_.api().is_done(operation->begin)) operation->reached = now;
    } else if (!overdue && now > *operation->reached + deadline_.load()) {
      overdue = operation.get();
    }
  }
  return overdue;
}

void Watchdog::check(Clock::time_point& next_poll) {
  bool is_slow = false;
  {
    const std::lock_guard lock(mutex_);
    const NcclOperation* const overdue = update();
    const NcclOperation* const oldest = oldest_pending();
    if (const NcclOperation* const named = overdue ? overdue : oldest) named_ = named->call;
    if (overdue) throw CommunicationError("not complete within " + seconds_text(deadline_));
    is_slow = oldest && oldest->reached &&
              Clock::now() > *oldest->reached + comparison_patience(deadline_.load());
  }
  handle_.check_async_error();
  if (compared_ > 0 && (!is_slow || compared_ != named_.ticket)) {
    compared_ = 0;
    callbacks_.compare_slow_call(nullptr);
  }
  if (is_slow && compared_ == 0 && named_.ticket > 0) {
    compared_ = named_.ticket;
    const std::string mismatch = callbacks_.compare_slow_call(&named_);
    if (!mismatch.empty()) throw CommunicationError(mismatch);
  }
  if (Clock::now() < next_poll) return;
  next_poll = Clock::now() + std::clamp(deadline_.load() / 8, milliseconds(50), milliseconds(1000));
  const std::string reason = callbacks_.poll_remote_abort();
  if (!reason.empty()) throw CommunicationError(reason);
}

bool Watchdog::sleep() {
  std::unique_lock lock(mutex_);
  const auto is_needed = [this] { return is_stopping_ || has_replays_ || oldest_pending(); };
  if (!is_needed()) changed_.wait(lock, is_needed);
  if (!is_stopping_) changed_.wait_for(lock, oldest_pending() ? interval() : milliseconds(1000));
  return !is_stopping_ && !handle_.is_shut_down();
}

void Watchdog::run() noexcept {
  auto next_poll = Clock::now();
  try {
    handle_.api().enter_thread();
    while (sleep()) check(next_poll);
  } catch (const std::exception& error) {
    callbacks_.on_failure(named_, error.what());
  }
}

}  // namespace shampoo
