// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// What is known of a step in the backend's memory.
namespace shampoo::kernels {

/// Result of a scan, in the backend's memory. `proceed` gates every kernel that writes.
struct ScanResult {
  std::int32_t proceed = 1;     ///< 0 refuses the step
  std::int32_t first_bad = -1;  ///< first tensor with a non-finite gradient, or -1
  double squared_norm =
      0;  ///< of all scaled gradients together; always the same NaN where one is bad
};

/// ScanResult::first_bad of a step that cannot do what it must; see Backend::admit().
inline constexpr std::int32_t unfit_step = -2;

/// What a step may and must do, in the backend's memory.
struct StepPermit {
  std::int32_t permitted = 1;  ///< 0: it changes nothing
  std::int32_t needs = 0;      ///< bits of what it must be able to do
  std::int64_t ticket = 0;     ///< good for one run, unless it is 0
};

/// Runs of steps, refused ones included, in the backend's memory.
struct ReplayCounter {
  std::int64_t count = 0;
  std::int64_t last_ticket = 0;
  std::int64_t repeated = 0;  ///< with a ticket that was used; not counted
};

/// Records of one size in one array, with other things between them.
struct RecordArray {
  const void* array = nullptr;           ///< [backend]
  const std::int64_t* begins = nullptr;  ///< [backend] first byte of each, a multiple of 4
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< of each, a multiple of 4
  // In bytes from the start of a record, multiples of 4.
  std::int64_t first_equal = 0, last_equal = 0;  ///< all records have the same bytes there
  std::int64_t flag = 0;                         ///< all have an int32 there that is not 0
};

}  // namespace shampoo::kernels
