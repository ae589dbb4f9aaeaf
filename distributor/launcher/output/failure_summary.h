// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace shampoo::launcher {

/// A worker's own report of its failure, from the file that TORCHELASTIC_ERROR_FILE names.
struct ErrorFile {
  std::string message;
  std::string traceback;  ///< empty: none
  std::optional<std::chrono::system_clock::time_point> time;
};

/// Empty where there is no such file or no name. Broken content becomes a message that says so.
std::optional<ErrorFile> read_error_file(const std::filesystem::path& path);

/// A worker that did not end with exit code 0.
struct WorkerFailure {
  std::chrono::system_clock::time_point time;  ///< when the launcher noticed
  std::string host;
  int rank = 0, local_rank = 0;
  int exit_code = 0;  ///< negative: the signal that ended it
  pid_t pid = 0;
  std::string error_file;          ///< its name
  std::optional<ErrorFile> error;  ///< its content, from read_error_file()

  /// The time in the error file, otherwise `time`.
  std::chrono::system_clock::time_point when() const;
  /// Upper bound of the time of failure: the root cause is the earliest of these.
  std::chrono::system_clock::time_point latest() const;
  /// From the error file, otherwise from the exit code.
  std::string message() const;
};

/// The earliest one. There must be at least one.
const WorkerFailure& root_cause(std::span<const WorkerFailure> failures);

/// torchrun's report on a job's end: root cause and the others, each with time, host, rank, exit
/// code, error file and traceback.
std::string failure_summary(const std::string& program, std::span<const WorkerFailure> failures);

/// As of a shell: the code, or 128 + signal.
int shell_exit_code(const WorkerFailure& failure);

}  // namespace shampoo::launcher
