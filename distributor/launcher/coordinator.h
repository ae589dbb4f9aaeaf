// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "distributor/launcher/messages.h"

namespace shampoo::launcher {

/// What a job allows.
struct JobLimits {
  int least_nodes = 1, most_nodes = 1;
  int max_restarts = 0;
  bool replaceable = false;  ///< whether another node may take the place of one that is lost
  std::chrono::milliseconds join{};       ///< to have the least number of nodes
  std::chrono::milliseconds last_call{};  ///< to have more
};

/// One launcher as the host sees it.
struct NodeView {
  int id = 0;  ///< 1, 2, ... in the order in which they joined; 1 is the host
  Introduction introduction;
  Report report;
  bool lost = false;  ///< gives no sign of life
};

/// Decides for all nodes of a job. Pure: sees the nodes and the clock, does nothing.
///
/// It waits for enough nodes, has them run an attempt, and when one fails, is lost or joins late,
/// calls all back for the next attempt, for which it waits again where nodes are missing that
/// others may replace. A late node does not use up a restart.
class Coordinator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Coordinator(const JobLimits& limits, Time now) : limits_(limits), gathering_since_(now) {}

  /// What to do next, if that changes now. `nodes` are sorted by id and never vanish.
  std::optional<Order> decide(std::span<const NodeView> nodes, Time now);
  /// Whom decide() turned away, and why. Turned away for good.
  const std::map<int, std::string>& refused() const { return refused_; }
  /// Whether all have ended, or are lost.
  bool finished(std::span<const NodeView> nodes) const;

 private:
  enum class State : std::uint8_t { gathering, running, ended };

  void admit(std::span<const NodeView> nodes);
  std::string objection(const NodeView& node, std::span<const NodeView> nodes) const;
  std::optional<Order> gather(std::span<const NodeView> nodes, Time now);
  std::optional<Order> supervise(std::span<const NodeView> nodes, Time now);
  Order run(std::span<const NodeView> nodes, std::span<const int> ready);
  Order restart_or_end(std::span<const NodeView> nodes, const std::string& why, int code, Time now);
  Order end(int code, const std::string& why);
  Order next(Order::Kind kind, const std::string& why);
  bool counts(const NodeView& node) const;

  JobLimits limits_;
  State state_ = State::gathering;
  Time gathering_since_;
  std::optional<Time> enough_since_;
  std::set<int> admitted_;
  std::set<int> members_;  ///< of the attempt that runs, or ran last
  std::map<int, std::string> refused_;
  int orders_ = 0, attempt_ = -1, restarts_ = 0;
};

}  // namespace shampoo::launcher
