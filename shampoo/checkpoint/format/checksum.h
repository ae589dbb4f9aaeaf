// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "grouping/hash.h"
#include "grouping/number_text.h"

namespace shampoo::checkpoint {

using grouping::from_hexadecimal;
using grouping::hexadecimal;
using Checksum = grouping::Hash;

inline std::uint64_t checksum(std::span<const std::byte> bytes) { return grouping::hash(bytes); }
inline std::uint64_t checksum(std::string_view text) { return grouping::hash(text); }

}  // namespace shampoo::checkpoint
