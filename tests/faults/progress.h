// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace shampoo::test {

/// What a rank of a training job is doing.
enum class Phase : std::int32_t {
  joining,
  connecting,  ///< to the other ranks, after all have registered
  constructing,
  loading,  ///< a checkpoint
  gradients,
  averaging,
  preparing,    ///< from here on in step()
  decomposing,  ///< in an eigendecomposition
  exchanging,   ///< in the step's collective
  applying,     ///< the step is complete, but not yet in the values
  between,      ///< steps
  saving,       ///< at work on a checkpoint
  // Parts of a save, which a page shows only where a rank was told to fail in them:
  snapshotting,  ///< copying the state
  persisting,    ///< writing the rank's file
  committing,    ///< writing the manifest; rank 0
  renaming,      ///< giving the checkpoint its name; rank 0
  ended
};

constexpr std::array<const char*, 17> phase_names = {
    "joining",      "connecting",  "constructing", "loading",  "gradients", "averaging",
    "preparing",    "decomposing", "exchanging",   "applying", "between",   "saving",
    "snapshotting", "persisting",  "committing",   "renaming", "ended"};

inline std::string name_of(Phase phase) { return phase_names[static_cast<std::size_t>(phase)]; }
/// Throws std::invalid_argument.
Phase phase_of(const std::string& name);

/// The last word of one process.
struct Progress {
  std::int32_t process = 0;
  std::int32_t step = 0;  ///< from 1 on; 0 before the first
  Phase phase = Phase::joining;
  std::uint64_t checksum = 0;  ///< of all values; from Phase::ended on
  std::int64_t since = 0;      ///< when the phase began, in ns of the steady clock
};

/// Where a process tells how far it is: a file in memory, which outlives it however it ends.
class ProgressPage {
 public:
  /// Creates the file. Throws std::runtime_error.
  explicit ProgressPage(const std::string& path);
  ~ProgressPage();
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;

  void enter(Phase phase, int step);
  void end(std::uint64_t checksum);

 private:
  struct Words {
    std::atomic<std::uint64_t> checksum;
    std::atomic<std::int64_t> since;
    std::atomic<std::int32_t> process, step, phase;
  };
  friend std::optional<Progress> read_progress(const std::string& path);

  Words* words_;
};

/// Nothing where there is no such page yet.
std::optional<Progress> read_progress(const std::string& path);

/// The page of a rank after so many restarts of its job.
std::string page_path(const std::string& folder, int rank, int restarts = 0);

}  // namespace shampoo::test
