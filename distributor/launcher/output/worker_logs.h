// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/output/log_folder.h"
#include "distributor/launcher/worker_setup.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// Waits for room. What cannot be written at all, as a disk is full or a console gone, is dropped.
void write_all(int descriptor, std::string_view bytes);

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
  /// As finish(), without waiting for processes that still hold a stream.
  ~WorkerLogs();
  WorkerLogs(const WorkerLogs&) = delete;
  WorkerLogs& operator=(const WorkerLogs&) = delete;

  /// Opens the files and pipes of one worker. Throws std::system_error.
  WorkerStreams open(const WorkerRanks& ranks);
  /// Once the workers are gone: writes what they left, for as long as files and console take it.
  /// Waits; for other processes that still hold a stream, at most `longest`.
  void finish(std::chrono::milliseconds longest = std::chrono::seconds(1));

 private:
  class Tee;
  UniqueFd open(const WorkerRanks& ranks, bool teed, bool redirected, const char* name,
                int console);

  const LaunchOptions& options_;
  const LogFolder& folder_;
  int attempt_;
  Console console_;
  std::unique_ptr<Tee> tee_;
};

}  // namespace shampoo::launcher
