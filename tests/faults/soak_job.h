// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "tests/faults/fault_job.h"

namespace shampoo::test {

/// What a training job under the launcher ended with.
struct JobEnd {
  int code = -1;
  std::optional<std::uint64_t> checksum = std::nullopt;  ///< where all ranks have the same
  bool left_nothing = false;
  int resumed = 0;  ///< starts that went on from a checkpoint
  /// Checkpoints are as they must be: none broken, nothing left behind, the last step the latest.
  bool good_checkpoints = true;
  /// Kills by the phase that they hit.
  std::array<int, phase_names.size()> hits = {};
  std::string output = {};

  int kills() const;
};

enum class Saves : std::uint8_t {
  none,     ///< the job starts again from its first step
  waiting,  ///< save()
  threaded  ///< AsyncCheckpointer
};

constexpr int steps_between_saves = 4;

struct JobPlan {
  int ranks = 2;
  int steps = 25;
  int kills = 0;
  /// Nine kills of ten come so many seconds after the start of training at the latest, the tenth
  /// before it.
  double longest_wait = 0;
  Saves saves = Saves::none;
};

/// Runs a job and kills a random rank at a random time, again and again; the launcher starts the
/// job again.
JobEnd run_job(const JobPlan& plan, std::mt19937_64& random);

}  // namespace shampoo::test
