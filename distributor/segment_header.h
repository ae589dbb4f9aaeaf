// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/facets.h"

namespace shampoo {

/// Local outcome of a step on one rank.
enum class RankStatus : std::int32_t {
  none,
  skipped,        ///< cannot take the step; nothing was changed
  failed,         ///< failed during the step
  deferred_error  ///< took the step, then has an error to throw
};

/// Values of SegmentHeader::step for collective calls other than steps.
inline constexpr std::int64_t adding_groups = 0, loading_state = -1, collecting_state = -2,
                              saving_checkpoint = -3, opening_checkpoint = -4, following_save = -5,
                              evaluating = -6, ending_evaluation = -7, averaging_gradients = -8;

/// First bytes of every rank's segment. Ranks in agreement have equal bytes before `status`.
struct SegmentHeader {
  /// Scan of the gradients; 0 in `proceed` stops all ranks.
  kernels::ScanResult scan = {};
  std::uint32_t magic = 0x346d6873;  ///< version of this layout
  std::int32_t taken = 0;            ///< number of steps that were not skipped
  /// Number of steps of the optimizer, skipped ones included.
  std::int64_t step = adding_groups;
  std::uint64_t plan = 0;      ///< hash of the plan
  std::uint64_t rates = 0;     ///< hash of all rates
  std::uint64_t presence = 0;  ///< hash of which gradients are present, and of values
  RankStatus status = RankStatus::none;
  /// NonFiniteDirections::first_tensor of the blocks that the rank owns.
  std::int32_t non_finite_direction = -1;
};
static_assert(sizeof(SegmentHeader) == 64 && std::is_trivially_copyable_v<SegmentHeader>);
static_assert(offsetof(SegmentHeader, scan) == 0 && offsetof(SegmentHeader, magic) == 16 &&
              offsetof(SegmentHeader, status) == 56);

}  // namespace shampoo
