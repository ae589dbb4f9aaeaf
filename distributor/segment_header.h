// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/backend.h"

namespace shampoo {

/// What a rank found on its own.
enum class RankStatus : std::int32_t {
  none,
  skipped,        ///< it cannot take the step, and changed nothing
  failed,         ///< it failed on the way
  deferred_error  ///< it took the step, and then has something to throw
};

/// The value of Header::step in calls that are not steps.
inline constexpr std::int64_t adding_groups = 0, loading_state = -1, collecting_state = -2,
                              saving_checkpoint = -3, opening_checkpoint = -4, following_save = -5;

/// What a rank says of itself at the start of its segment. Ranks of one mind say the same, up to
/// the finding.
struct Header {
  kernels::ScanResult verdict = {};          ///< of the scan; 0 proceeds: others must not, either
  std::uint64_t magic = 0x335f706d61687301;  ///< of this layout
  std::int64_t step = adding_groups;         ///< of the optimizer, refused ones included
  std::uint64_t plan = 0;                    ///< hashes
  std::uint64_t rates = 0;
  std::uint64_t presence = 0;
  std::int32_t taken = 0;  ///< steps that were not refused
  RankStatus finding = RankStatus::none;
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);
static_assert(offsetof(Header, verdict) == 0 && offsetof(Header, magic) == 16 &&
              offsetof(Header, finding) == 60);

}  // namespace shampoo
