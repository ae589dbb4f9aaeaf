// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "shampoo/trace/phase.h"

namespace shampoo {

/// Trace of the steps of one rank in the Trace Event Format, as an array of events: one process for
/// the rank, one thread for the steps and one for every phase, of every virtual group. It ends with
/// a whole step whenever the process dies; then the array lacks its closing bracket, which viewers
/// do not need. If the file can no longer be written, the trace ends.
class TraceFile {
 public:
  /// Writes `folder`/rank-`rank`.json, in place of an earlier one, and makes the folder. Throws
  /// std::invalid_argument that names OptimizerOptions::trace.
  TraceFile(const std::filesystem::path& folder, int rank);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;

  /// Makes room for a step with so many phases, and names those of virtual groups that are new.
  void reserve(std::size_t virtual_groups, std::size_t phases);
  /// Seconds since the first call.
  double start();

  // One step: its phases, by phase_index(), between begin() and end(), which writes them. Times are
  // in seconds. Nothing is allocated.
  void begin(std::int64_t step, std::optional<bool> applied, double at, double seconds);
  void add(std::size_t phase, double at, double seconds);
  void end();

  /// Where the trace is, and why it ended if it did.
  std::string description() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void name_process();
  void name_thread(std::size_t thread, const std::string& name);
  void add_number(std::int64_t number);
  void add_microseconds(double seconds);
  void add_times(std::size_t thread, double at, double seconds);
  void write();

  std::filesystem::path path_;
  int rank_;
  std::unique_ptr<std::FILE, Close> file_;  ///< null: the trace has ended
  int error_ = 0;                           ///< errno that ended it
  std::string text_;                        ///< events that are not yet written
  std::uintmax_t written_ = 0;              ///< bytes of whole steps
  std::int64_t step_ = 0;                   ///< that the events are of
  std::int64_t written_step_ = 0;           ///< the latest
  std::size_t named_ = 0;                   ///< threads that have a name
  std::optional<std::chrono::steady_clock::time_point> origin_;
};

}  // namespace shampoo
