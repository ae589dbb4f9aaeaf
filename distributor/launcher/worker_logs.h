// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "distributor/launcher/launch_options.h"
#include "distributor/launcher/log_folder.h"
#include "distributor/launcher/worker_environment.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

class Tee;

/// What becomes a worker's standard output and error; empty: the launcher's own. The parent closes
/// its copies, by letting go of this, once the worker has started.
struct WorkerStreams {
  UniqueFd out, error;
};

/// Where this launcher's console is. Borrowed.
struct Console {
  int out = 1;
  int error = 2;
};

/// Takes the output of one attempt's workers to files and console. All descriptors close on exec.
class WorkerLogs {
 public:
  /// A thread, which blocks all signals, starts with the first teed stream. `options` and `folder`
  /// must outlive this.
  WorkerLogs(const LaunchOptions& options, const LogFolder& folder, int attempt,
             Console console = {});
  /// As finish() without patience.
  ~WorkerLogs();
  WorkerLogs(const WorkerLogs&) = delete;
  WorkerLogs& operator=(const WorkerLogs&) = delete;

  /// Opens the files and pipes of one worker. Throws std::system_error.
  WorkerStreams open(const WorkerRanks& ranks);

  /// Once the workers are gone: lets this write what they left, last lines without an end too.
  /// Descendants that still hold a stream count for at most so long, a console that takes no more
  /// until hurry(). None of these waits.
  void close(std::chrono::milliseconds patience = std::chrono::seconds(1));
  /// From now on, waits for the console at most so long and drops what it does not take. Shortens
  /// an earlier limit, never extends it.
  void hurry(std::chrono::milliseconds patience);
  /// Whether all is written, or dropped.
  bool done() const;
  /// Becomes readable then; -1 where there is nothing to wait for.
  int ended() const;
  /// What a console that was still open did not get.
  std::size_t dropped_bytes() const;

  /// close() and hurry(), and waits until done().
  void finish(std::chrono::milliseconds patience);

 private:
  struct Filters;
  struct Stream;
  UniqueFd open(const WorkerRanks& ranks, const Stream& stream);

  const LaunchOptions& options_;
  const LogFolder& folder_;
  int attempt_;
  Console console_;
  std::unique_ptr<Filters> filters_;
  std::unique_ptr<Tee> tee_;
};

}  // namespace shampoo::launcher
