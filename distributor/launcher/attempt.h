// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "distributor/launcher/descriptor_limit.h"
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
  void start(WorkerGroup& group, const DescriptorLimit& limit);
  /// Once all are gone: lets the logs take what they still lack. Does not wait; as WorkerLogs.
  void close_logs() { logs_.close(); }
  void hurry_logs(std::chrono::milliseconds patience) { logs_.hurry(patience); }
  bool logs_done() const { return logs_.done(); }
  int logs_ended() const { return logs_.ended(); }
  std::size_t dropped_bytes() const { return logs_.dropped_bytes(); }

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
