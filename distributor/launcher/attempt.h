// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distributor/launcher/environment.h"
#include "distributor/launcher/failure_summary.h"
#include "distributor/launcher/launch_options.h"
#include "distributor/launcher/log_folder.h"
#include "distributor/launcher/messages.h"
#include "distributor/launcher/worker_environment.h"
#include "distributor/launcher/worker_group.h"
#include "distributor/launcher/worker_logs.h"

namespace shampoo::launcher {

/// The ranks of a node's workers; empty where the order does not include node `id`.
std::vector<WorkerRanks> ranks_of(const Order& order, int id);

/// The workers of this node in one attempt: processes and logs.
class Attempt {
 public:
  Attempt(const LaunchOptions& options, const LogFolder& folder, const Environment& inherited,
          const Order& order, std::vector<WorkerRanks> ranks);

  /// Starts them all. Throws MissingProgram, StartError or std::system_error; some may run then.
  void start(WorkerGroup& group);
  /// Once all are gone: writes what their logs still lack.
  void finish() { logs_.finish(); }

  int number() const { return order_.attempt; }
  /// Those of `exits` that are failures, with their error files.
  std::vector<WorkerFailure> failures(const std::vector<WorkerExit>& exits) const;

 private:
  WorkerStart start_of(const WorkerRanks& ranks) const;

  const LaunchOptions& options_;
  const LogFolder& folder_;
  const Environment& inherited_;
  Order order_;
  std::vector<WorkerRanks> ranks_;
  WorkerLogs logs_;
};

}  // namespace shampoo::launcher
