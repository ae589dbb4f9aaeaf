// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/backend.h"

namespace shampoo {

/// What a rank found on its own.
enum class Finding : std::int32_t {
  none,
  refused,  ///< it cannot take the step, and changed nothing
  broken,   ///< it failed on the way
  late      ///< it took the step, and then has something to throw
};

/// The value of Header::step in calls that are not steps.
inline constexpr std::int64_t adding_groups = 0, loading_state = -1, collecting_state = -2;

/// What a rank says of itself at the start of its segment. Ranks of one mind say the same.
struct Header {
  std::uint64_t magic = 0x325f706d61687301;  ///< of this layout
  std::int64_t step = adding_groups;         ///< of the optimizer, refused ones included
  std::uint64_t plan = 0;                    ///< hashes
  std::uint64_t rates = 0;
  std::uint64_t presence = 0;
  Finding finding = Finding::none;
  std::int32_t taken = 0;         ///< steps that were not refused
  kernels::Verdict verdict = {};  ///< of the scan
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

}  // namespace shampoo
