// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/output/log_folder.h"
#include "distributor/launcher/output/tee.h"
#include "distributor/launcher/worker_environment.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// What becomes a worker's standard output and error; empty: the launcher's own. The launcher
/// drops its copies once the worker has started.
struct WorkerStreams {
  UniqueFd out, error;
};

/// Standard output and error of the launcher. Borrowed.
struct Console {
  int out = 1;
  int error = 2;
};

/// Carries the output of one attempt's workers to files and console. All descriptors close on exec.
class WorkerLogs {
 public:
  /// `options` and `folder` are borrowed. A thread starts with the first teed stream.
  WorkerLogs(const LaunchOptions& options, const LogFolder& folder, int attempt,
             Console console = {});

  /// Opens the files and pipes of one worker. Throws std::system_error.
  WorkerStreams open(const WorkerRanks& ranks);
  /// Once the workers are gone: writes what they left, for as long as files and console take it.
  /// Waits; for other processes that still hold a stream, at most `longest`.
  void finish(std::chrono::milliseconds longest = std::chrono::seconds(1));

 private:
  struct Target {
    bool teed, redirected;
    const char* file;
    int console;
  };
  UniqueFd open(const WorkerRanks& ranks, const Target& target);

  const LaunchOptions& options_;
  const LogFolder& folder_;
  int attempt_;
  Console console_;
  std::unique_ptr<Tee> tee_;
};

}  // namespace shampoo::launcher
