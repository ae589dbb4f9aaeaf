// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "distributor/launcher/descriptor_limit.h"
#include "distributor/launcher/environment.h"
#include "distributor/launcher/output/worker_logs.h"

namespace shampoo::launcher {

/// A worker's program could not be executed. One line, which names the program and why.
class StartError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Starts a worker in a session and process group of its own, with default signal dispositions, an
/// empty signal mask, no descriptors but 0, 1 and 2, and `limit` of them. Waits until it executes
/// the program, which is looked for as by execvp(). Throws StartError.
///
/// The kernel kills the worker when the calling *thread* ends: call from one that lasts as long as
/// the workers.
pid_t start_worker(const std::vector<std::string>& command, const Environment& environment,
                   const WorkerStreams& streams, const DescriptorLimit& limit);

}  // namespace shampoo::launcher
