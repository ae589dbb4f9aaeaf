// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace shampoo::test {

class StreamDouble;

/// Work that was recorded instead of being done; each replay queues it.
struct GraphDouble {
  std::vector<std::function<void(StreamDouble&)>> work;
};

/// Shared with the work that it is recorded and waited for in: it may go before that is done.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0, reached = 0;
  std::shared_ptr<GraphDouble> captured;  ///< where it was last recorded, if that was a capture

  void reach(std::uint64_t which);
  void wait_for(std::uint64_t which);
};
using EventDouble = std::shared_ptr<EventState>;

/// A stream of a device: does in order, on a thread, what is pushed. Those that push are one
/// thread, as with a capture.
class StreamDouble {
 public:
  StreamDouble() : thread_([this] { run(); }) {}
  /// Waits for all work.
  ~StreamDouble();
  StreamDouble(const StreamDouble&) = delete;
  StreamDouble& operator=(const StreamDouble&) = delete;

  void push(std::function<void()> work);
  void record(const EventDouble& event);
  void wait(const EventDouble& event);
  /// In a capture, of every replay.
  void record_external(const EventDouble& event);
  void wait_external(const EventDouble& event);
  void synchronize();

  bool is_capturing() const { return graph_ != nullptr; }
  void begin_capture() { graph_ = std::make_shared<GraphDouble>(); }
  std::shared_ptr<GraphDouble> graph() const { return graph_; }
  void leave_capture() { graph_ = nullptr; }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool over_ = false;
  std::shared_ptr<GraphDouble> graph_;
  std::thread thread_;
};

}  // namespace shampoo::test
