// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_watchdog.h"

#include <algorithm>
#include <utility>

#include "distributor/error.h"
#include "distributor/rank_list.h"
#include "distributor/system/backoff.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo {

using std::chrono::milliseconds;

namespace {

/// Between a shutdown and the end of what it ends.
constexpr milliseconds moment{2000};

}  // namespace

NcclWatch::NcclWatch(NcclHandle& handle, Duties duties, milliseconds deadline)
    : handle_(handle),
      duties_(std::move(duties)),
      deadline_(deadline),
      thread_(thread_without_signals([this] { run(); })) {}

bool NcclWatch::end() {
  if (!thread_.joinable()) return is_free_;
  drain();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (std::unique_ptr<NcclOperation>& operation : operations_) {
    // One whose start failed may be on its way, unless what carries it is gone.
    const bool is_pending =
        operation->state == State::running ||
        (operation->state == State::taken && !(handle_.is_owned() && handle_.is_shut_down()));
    if (is_pending) {
      static_cast<void>(operation.release());
      is_free_ = false;
    } else {
      handle_.calls().destroy_event(operation->begin);
      handle_.calls().destroy_event(operation->end);
    }
  }
  operations_.clear();
  return is_free_;
}

/// Until nothing runs, or nothing will end any more.
void NcclWatch::drain() {
  const auto end = Clock::now() + deadline_.load() + moment;
  std::optional<Clock::time_point> shut_down;
  for (Backoff backoff; Clock::now() < end;) {
    try {
      const std::lock_guard lock(mutex_);
      refresh();
      if (!first_running()) return;
    } catch (const CommunicationError&) {
      return;  // the device is lost
    }
    backoff.pause();
    if (handle_.is_shut_down() && !shut_down) shut_down = Clock::now();
    if (shut_down && Clock::now() > *shut_down + moment) return;
  }
}

NcclOperation& NcclWatch::take(std::uint64_t ticket, std::string_view name, const BufferLease& loan,
                               bool capturing) {
  const std::lock_guard lock(mutex_);
  if (!capturing) refresh();
  for (const auto& operation : operations_)
    if (operation->state == State::done && operation->is_waited_for) release(*operation);
  auto free = std::ranges::find(operations_, State::free,
                                [](const auto& operation) { return operation->state; });
  if (free == operations_.end()) {
    auto made = std::make_unique<NcclOperation>();
    made->begin = handle_.calls().make_event();
    made->end = handle_.calls().make_event();
    free = operations_.insert(free, std::move(made));
  }
  NcclOperation& operation = **free;
  operation.state = State::taken;
  operation.ticket = ticket;
  operation.name = name;
  operation.stream = loan.stream.handle;
  operation.owner = loan.owner;
  return operation;
}

void NcclWatch::started(NcclOperation& operation, bool capturing) {
  {
    const std::lock_guard lock(mutex_);
    operation.state = capturing ? State::captured : State::running;
    has_replays_ = has_replays_ || capturing;
  }
  changed_.notify_all();
}

NcclOperation* NcclWatch::find(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  for (const auto& operation : operations_)
    if (operation->ticket == ticket && !operation->is_waited_for) return operation.get();
  return nullptr;
}

void NcclWatch::waited_for(NcclOperation& operation) {
  const std::lock_guard lock(mutex_);
  operation.is_waited_for = true;
  // A graph may run for as long as it exists; whoever captures keeps the buffers.
  if (operation.state == State::captured) release(operation);
}

void NcclWatch::release(NcclOperation& operation) {
  operation = {.begin = operation.begin, .end = operation.end};
}

const NcclOperation* NcclWatch::first_running() const {
  const NcclOperation* first = nullptr;
  for (const auto& operation : operations_)
    if (operation->state == State::running && (!first || operation->ticket < first->ticket))
      first = operation.get();
  return first;
}

milliseconds NcclWatch::interval() const {
  return std::clamp(deadline_.load() / 20, milliseconds(1), milliseconds(50));
}

const NcclOperation* NcclWatch::refresh() {
  const NcclOperation* late = nullptr;
  const auto now = Clock::now();
  for (const auto& operation : operations_) {
    if (operation->state != State::running) continue;
    if (handle_.calls().is_done(operation->end)) {
      operation->state = State::done;
    } else if (!operation->begun) {
      if (handle_.calls().is_done(operation->begin)) operation->begun = now;
    } else if (!late && now > *operation->begun + deadline_.load()) {
      late = operation.get();
    }
  }
  return late;
}

void NcclWatch::look(Clock::time_point& next_hearing) {
  {
    const std::lock_guard lock(mutex_);
    const NcclOperation* const late = refresh();
    if (const NcclOperation* const about = late ? late : first_running()) {
      ticket_ = about->ticket;
      name_ = about->name;
    }
    if (late) throw CommunicationError("not complete within " + seconds_text(deadline_));
  }
  handle_.look();
  if (Clock::now() < next_hearing) return;
  const milliseconds pause = std::clamp(deadline_.load() / 8, milliseconds(50), milliseconds(1000));
  next_hearing = Clock::now() + pause;
  const std::string heard = duties_.hear();
  if (!heard.empty()) throw CommunicationError(heard);
}

bool NcclWatch::pause() {
  std::unique_lock lock(mutex_);
  const auto is_needed = [this] { return over_ || has_replays_ || first_running(); };
  if (!is_needed()) changed_.wait(lock, is_needed);
  if (!over_) changed_.wait_for(lock, first_running() ? interval() : milliseconds(1000));
  return !over_ && !handle_.is_shut_down();
}

void NcclWatch::run() noexcept {
  auto next_hearing = Clock::now();
  try {
    handle_.calls().enter_thread();
    while (pause()) look(next_hearing);
  } catch (const std::exception& error) {
    duties_.lose(ticket_, name_, error.what());
  }
}

}  // namespace shampoo
