// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distributor/launcher/descriptor_limit.h"
#include "distributor/launcher/environment.h"
#include "distributor/launcher/nodes/messages.h"
#include "distributor/launcher/output/failure_summary.h"
#include "distributor/launcher/output/log_folder.h"
#include "distributor/launcher/output/worker_logs.h"
#include "distributor/launcher/worker_environment.h"
#include "distributor/launcher/worker_group.h"

namespace shampoo::launcher {

/// The ranks of the workers of a node, one of `order.members`.
std::vector<WorkerRanks> ranks_of(const Order& order, int node);

/// The workers of this node in one attempt: processes and logs.
class Attempt {
 public:
  /// All but `order` and `ranks` is borrowed. `store_port`: see options.endpoint_host.
  Attempt(const LaunchOptions& options, const LogFolder& folder, const Environment& inherited,
          const Order& order, std::vector<WorkerRanks> ranks, std::uint16_t store_port);

  /// Starts all workers. Throws StartError or std::system_error; some may run then.
  void start(WorkerGroup& group, const DescriptorLimit& limit);
  /// Once all are gone: writes the rest of their output. Waits for the console.
  void finish_logs() { logs_.finish(); }
  /// Those of `exits` that are failures, with their error files.
  std::vector<WorkerFailure> failures(const std::vector<WorkerExit>& exits) const;

 private:
  const LaunchOptions& options_;
  const LogFolder& folder_;
  const Environment& inherited_;
  int number_;
  std::vector<WorkerRanks> ranks_;
  std::uint16_t store_port_;
  WorkerLogs logs_;
};

}  // namespace shampoo::launcher
