// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "distributor/launcher/coordinator.h"
#include "distributor/launcher/launch_options.h"
#include "distributor/launcher/messages.h"
#include "distributor/store/store.h"

namespace shampoo::launcher {

/// The run id that a host wrote into its store; empty where it did not.
std::optional<std::string> job_of(Store& store);

/// How the launchers of a job agree, through a store. Keys, all of them below "shampoorun/":
///
///     job             "1 <run id>": version of this protocol; written by the host, first of all
///     nodes           counter; what a launcher's ADD returns is its id; the host's is 1
///     node/<id>       Introduction
///     alive/<id>      changes as long as the launcher lives
///     report/<id>     Report
///     refusal/<id>    from the host: why this launcher must end
///     order           Order; from the host, for all
///
/// Only the host reads introductions and reports, only it writes orders; its Coordinator decides.
class NodeGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Joins. `coordinator`: where this launcher is the host. `prepare` completes an order to run
  /// before others see it. `store` is borrowed. Like all of this class, throws CommunicationError
  /// where the store does not answer, that is, the host is gone.
  NodeGroup(Store& store, const std::string& run_id, const Introduction& introduction,
            const RendezvousTimes& times, std::optional<Coordinator> coordinator,
            std::function<void(Order&)> prepare);

  int id() const { return id_; }
  void report(const Report& report);
  /// Says that this launcher lives; where it is the host, looks after all and decides. The order
  /// that is new since the last call. Throws Refused where the host turned this launcher away.
  std::optional<Order> tick(Time now);
  /// Whether this launcher decides.
  bool host() const { return coordinator_.has_value(); }
  /// At the host: whether all others have ended.
  bool finished() const { return !coordinator_ || coordinator_->finished(nodes_); }

 private:
  struct Life {
    std::string sign;
    Time seen;
  };

  void show_life(Time now);
  void meet_newcomers(Time now);
  void look(NodeView& node, Time now);
  void decide(Time now);
  std::optional<Order> read_order();

  Store& store_;
  std::chrono::milliseconds beat_, loss_;
  std::optional<Coordinator> coordinator_;
  std::function<void(Order&)> prepare_;
  int id_ = 0;
  std::int64_t beats_ = 0;
  Time shown_;
  int last_order_ = 0;
  // Of the host only:
  Time looked_;
  std::vector<NodeView> nodes_;
  std::map<int, Life> lives_;
  int known_ = 0;                 ///< ids up to this one were met
  std::map<int, Time> nameless_;  ///< those of them without an introduction yet, and since when
  std::set<int> told_;            ///< who was told of a refusal
};

}  // namespace shampoo::launcher
