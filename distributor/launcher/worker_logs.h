// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "distributor/launcher/descriptor.h"
#include "distributor/launcher/launch_options.h"
#include "distributor/launcher/log_folder.h"
#include "distributor/launcher/worker_environment.h"

namespace shampoo::launcher {

class Tee;

/// What becomes a worker's standard output and error; empty: the launcher's own. The parent closes
/// its copies, by letting go of this, once the worker has started.
struct WorkerStreams {
  Descriptor out, error;
};

/// Where this launcher's console is. Borrowed.
struct Console {
  int out = 1;
  int error = 2;
};

/// Takes the output of one attempt's workers to files and console. All descriptors close on exec.
class WorkerLogs {
 public:
  /// A thread, which blocks all signals, starts with the first teed stream. `options` must outlive
  /// this.
  WorkerLogs(const LaunchOptions& options, const LogFolder& folder, int attempt,
             Console console = {});
  /// As finish() without patience.
  ~WorkerLogs();
  WorkerLogs(const WorkerLogs&) = delete;
  WorkerLogs& operator=(const WorkerLogs&) = delete;

  /// Opens the files and pipes of one worker. Throws std::system_error.
  WorkerStreams open(const WorkerRanks& ranks);

  /// Once the workers are gone: writes what they left, last lines without an end too. Waits for
  /// descendants that still hold a stream, and for a console that does not take more, at most so
  /// long.
  void finish(std::chrono::milliseconds patience = std::chrono::seconds(1));

 private:
  struct Filters;
  struct Stream;
  Descriptor open(const WorkerRanks& ranks, const Stream& stream);

  const LaunchOptions& options_;
  std::filesystem::path folder_;  ///< of the attempt; empty: no files
  Console console_;
  std::unique_ptr<Filters> filters_;
  std::unique_ptr<Tee> tee_;
};

}  // namespace shampoo::launcher
