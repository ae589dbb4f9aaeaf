// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/nodes/job_coordinator.h"
#include "distributor/launcher/nodes/messages.h"
#include "distributor/store/store.h"

namespace shampoo::launcher {

/// This launcher cannot take part in the job. One line.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How the launchers of a job agree, through its store. Keys, all below "shampoorun/":
///
///     job             JobTerms; from the host, before others join
///     claim/<node>    counter; the launcher that counted to 1 is this node, of 0 ... nodes - 1
///     node/<node>     Introduction
///     report/<node>   Report, with every heartbeat
///     order           Order; from the host, for all
///
/// Only the host reads introductions and reports, only it writes orders; its JobCoordinator
/// decides.
class NodeGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::string_view key_prefix = "shampoorun/";

  /// Joins. `is_host`: whether this launcher decides. `before_attempt` is called at the host before
  /// the nodes learn of an attempt. `store` is borrowed. Throws Refused where the job is another
  /// one or has no place left, and like all of this class CommunicationError where the store does
  /// not answer, that is, the host is gone.
  NodeGroup(Store& store, const LaunchOptions& options, const Introduction& introduction,
            bool is_host, std::function<void()> before_attempt);

  /// Of this launcher.
  int node() const { return node_; }
  bool is_host() const { return coordinator_.has_value(); }

  /// Sends the report at once.
  void send(const Report& report);
  /// Sends a heartbeat where it is due; at the host, looks after all nodes and decides. The order
  /// that is new since the last call.
  std::optional<Order> tick(Time now);
  /// At the host: whether all others have ended.
  bool finished() const { return !is_host() || all_ended(nodes_); }

 private:
  void compare_terms(const JobTerms& own, const std::string& where);
  int claim_node(const LaunchOptions& options, bool is_host);
  void observe(int node, Time now);
  void decide(Time now);
  std::optional<Order> read_order();

  Store& store_;
  int workers_;
  std::chrono::milliseconds heartbeat_, loss_;
  std::optional<JobCoordinator> coordinator_;
  std::function<void()> before_attempt_;
  int node_ = 0;
  Report report_;
  Time sent_;
  int last_order_ = 0;
  std::vector<NodeView> nodes_;
  std::vector<Time> seen_;  ///< at the host: the last heartbeats of nodes_
  Time observed_;
};

}  // namespace shampoo::launcher
