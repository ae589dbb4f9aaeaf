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

/// The loss scale between steps.
struct LossScale {
  float scale = 1;              ///< a power of two, which the next loss is multiplied by
  std::int32_t good_steps = 0;  ///< in a row, since the scale last changed
  double inverse = 1;           ///< what the next scan multiplies gradients by: 1 / scale
};

/// How the loss scale changes: see updated_loss_scale().
struct LossScaleUpdate {
  std::int32_t interval = 0;  ///< good steps in a row after which it grows; 0: it never changes
  float growth = 2, backoff = 0.5f;
  float floor = 1, ceiling = 1;
};

/// Which steps are skipped because their gradient is much longer than usual: see is_outlier().
struct NormLimit {
  double deviations = 0;    ///< allowed above the mean
  std::int32_t window = 0;  ///< number of norms that say what is usual; 0: there is no limit
  double* norms = nullptr;  ///< [backend] the last `window` norms, norm n at n % window
};

/// What is decided about the gradients of a step once they were scanned.
struct GradientRules {
  LossScaleUpdate loss_scale = {};
  double max_norm = __builtin_huge_val();  ///< of all gradients together, without the loss scale
  NormLimit norm_limit = {};
};

/// State of GradientRules.
struct GradientState {
  LossScale now, before;        ///< after the step, and in it
  double clip_factor = 1;       ///< by max_norm
  double scale = 1;             ///< before.inverse clip_factor: PassContext::gradient_scale
  std::int64_t norms = 0;       ///< number of norms that the window has seen
  double replaced_norm = 0;     ///< by that of the step
  std::int32_t added_norm = 0;  ///< 1: the step added one
  std::int32_t outlier = 0;     ///< 1: the step was skipped because of its norm
};

/// Results of a step, and what it leaves for the next one.
struct alignas(64) StepRecords {
  ScanResult scan;
  ReplayCounter runs;
  NonFiniteDirections directions;
  GradientState gradients;
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
