// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "distributor/launcher/nodes/messages.h"

namespace shampoo::launcher {

/// One launcher as the host sees it.
struct NodeView {
  std::optional<Introduction> introduction;  ///< empty: has not joined yet
  Report report;
  bool lost = false;  ///< misses heartbeats
};

/// Decides for all nodes of a job. Pure: sees the nodes and the clock, without side effects.
///
/// Waits until all nodes are ready, has them run an attempt, and when a worker fails or a node is
/// lost, calls all back for the next attempt while restarts are left. Ends the job when a node
/// leaves, cannot run its workers, or is not ready in time.
class JobCoordinator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  JobCoordinator(int max_restarts, std::chrono::milliseconds join, Time now)
      : max_restarts_(max_restarts), join_(join), gathering_since_(now) {}

  /// The next order, where one is due. `nodes`: all of the job, the host first.
  std::optional<Order> decide(std::span<const NodeView> nodes, Time now);

 private:
  enum class State : std::uint8_t { gathering, running, ended };

  std::optional<Order> gather(std::span<const NodeView> nodes, Time now);
  std::optional<Order> supervise(std::span<const NodeView> nodes, Time now);
  Order restart_or_end(const std::string& why, int code, Time now);
  Order end(int code, const std::string& why);
  Order next(OrderKind kind, const std::string& why, int code = 0);

  int max_restarts_;
  std::chrono::milliseconds join_;
  Time gathering_since_;
  State state_ = State::gathering;
  int orders_ = 0, attempt_ = 0;
};

/// True if all nodes have ended, or are lost.
bool all_ended(std::span<const NodeView> nodes);

}  // namespace shampoo::launcher
