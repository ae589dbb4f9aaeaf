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
  /// Kills by the phase that they hit.
  std::array<int, phase_names.size()> hits = {};
  std::string output = {};

  int kills() const;
};

/// Runs a job of `ranks` ranks and kills a random one at a random time, `kills` times; the launcher
/// starts the job again from its first step. `training` is how long an undisturbed run trains, in
/// seconds: nine kills of ten come while it does, the tenth while it starts.
JobEnd run_job(int ranks, int kills, double training, std::mt19937_64& random);

}  // namespace shampoo::test
