// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "distributor/launcher/output/worker_logs.h"
#include "distributor/system/environment.h"

namespace shampoo::launcher {

/// How many descriptors a process may have.
using DescriptorLimit = rlimit;

/// Lets this process have as many as the system allows: each worker of a job is a connection to its
/// host. Returns the limit as it was, for the workers, whose programs may rely on it.
DescriptorLimit raise_descriptor_limit();

/// Starts a worker in a session and process group of its own, with default signal dispositions, an
/// empty signal mask, no descriptors but 0, 1 and 2, and `limit` of them. Waits until it executes
/// the program, which is looked for as by execvp(). Throws std::runtime_error, one line that names
/// the program and why it cannot be executed.
///
/// The kernel kills the worker when the calling *thread* ends: call from one that lasts as long as
/// the workers.
pid_t start_worker(const std::vector<std::string>& command, const Environment& environment,
                   const WorkerStreams& streams, const DescriptorLimit& limit);

}  // namespace shampoo::launcher
