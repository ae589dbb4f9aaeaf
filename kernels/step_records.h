// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// State of a step in the backend's memory.
namespace shampoo::kernels {

/// Result of a scan. `proceed` gates every kernel that writes.
struct ScanResult {
  std::int32_t proceed = 1;     ///< 0: the step is skipped
  std::int32_t first_bad = -1;  ///< first tensor with a non-finite gradient, needs_refresh, or -1
  /// Squared norm of all scaled gradients together; always the same NaN where one is not finite.
  double squared_norm = 0;
};

/// Blocks that did not take a step, because their direction was not finite.
struct NonFiniteDirections {
  std::int32_t blocks = 0;
  std::int32_t first_tensor = -1;  ///< the first tensor that has one, or -1
};

/// ScanResult::first_bad of a step that lacks something it needs, such as queued refreshes; see
/// StepGuard::admit().
inline constexpr std::int32_t needs_refresh = -2;

/// Permission for a step.
struct StepPermit {
  std::int32_t permitted = 1;  ///< 0: the step is skipped
  std::int32_t needs = 0;      ///< bits that the offered ones must include
  /// Id of one preparation, valid for one run; 0: valid for any number of runs.
  std::int64_t generation = 0;
};

/// Counts runs of steps, skipped ones included.
struct ReplayCounter {
  std::int64_t count = 0;
  std::int64_t last_generation = 0;
  std::int64_t repeated = 0;  ///< runs of a generation that had been used, which `count` excludes
};

/// Records of one size in one array, possibly with gaps between them.
struct RecordArray {
  const void* array = nullptr;           ///< [backend]
  const std::int64_t* begins = nullptr;  ///< [backend] first byte of each, a multiple of 4
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< bytes of each record, a multiple of 4
  // In bytes from the start of a record, multiples of 4.
  std::int64_t first_equal = 0, last_equal = 0;  ///< all records must have the same bytes there
  std::int64_t flag = 0;                         ///< all must have an int32 there that is not 0
};

}  // namespace shampoo::kernels
