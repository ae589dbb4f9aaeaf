// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/output/log_folder.h"
#include "distributor/launcher/worker_setup.h"
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
  /// As finish(), without waiting for the console or for processes that still hold a stream.
  ~WorkerLogs();
  WorkerLogs(const WorkerLogs&) = delete;
  WorkerLogs& operator=(const WorkerLogs&) = delete;

  /// Opens the files and pipes of one worker. Throws std::system_error.
  WorkerStreams open(const WorkerRanks& ranks);
  /// Once the workers are gone: what they left is written, which other processes that still hold a
  /// stream delay by `longest` at most, and a console that takes no more until it does. Does not
  /// wait; later calls have no effect.
  void finish(std::chrono::milliseconds longest = std::chrono::seconds(1));
  /// After finish(): true once all is written.
  bool finished() const;
  /// Readable once finished() is true; -1: it is from the start.
  int descriptor() const;
  /// From then on what the console does not take at once is lost. Only shortens.
  void leave_console(std::chrono::steady_clock::time_point end);

 private:
  class Tee;
  UniqueFd open(const WorkerRanks& ranks, bool teed, bool redirected, const std::string& name);

  const LaunchOptions& options_;
  const LogFolder& folder_;
  int attempt_;
  Console console_;
  std::unique_ptr<Tee> tee_;
};

}  // namespace shampoo::launcher
