// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/transports/nccl/stream_double.h"

#include <stdexcept>
#include <utility>

namespace shampoo::test {

void EventState::reach(std::uint64_t which) {
  {
    const std::lock_guard lock(mutex);
    reached = which;
  }
  changed.notify_all();
}

void EventState::wait_for(std::uint64_t which) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return reached >= which; });
}

StreamDouble::~StreamDouble() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamDouble::push(std::function<void()> work) {
  if (graph_) {
    graph_->work.push_back([work = std::move(work)](StreamDouble& stream) { stream.push(work); });
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void StreamDouble::record(const EventDouble& event) {
  std::uint64_t which = 0;
  {
    const std::lock_guard lock(event->mutex);
    event->captured = graph_;
    if (!graph_) which = ++event->recorded;
  }
  if (!graph_) push([event, which] { event->reach(which); });
}

void StreamDouble::wait(const EventDouble& event) {
  std::shared_ptr<GraphDouble> captured;
  std::uint64_t which = 0;
  {
    const std::lock_guard lock(event->mutex);
    captured = event->captured;
    which = event->recorded;
  }
  if (captured) {
    if (graph_ && graph_ != captured) throw std::logic_error("a stream is in two captures");
    graph_ = captured;
  } else if (graph_) {
    throw std::logic_error("a capture waits for an event that is not part of it");
  } else {
    push([event, which] { event->wait_for(which); });
  }
}

void StreamDouble::record_external(const EventDouble& event) {
  if (!graph_) return record(event);
  graph_->work.push_back([event](StreamDouble& stream) { stream.record(event); });
}

void StreamDouble::wait_external(const EventDouble& event) {
  if (!graph_) return wait(event);
  graph_->work.push_back([event](StreamDouble& stream) { stream.wait(event); });
}

void StreamDouble::synchronize() {
  if (graph_) throw std::logic_error("a stream is synchronised while it is captured");
  const auto event = std::make_shared<EventState>();
  record(event);
  event->wait_for(1);
}

void StreamDouble::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return over_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace shampoo::test
