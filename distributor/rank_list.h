// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <string>

namespace shampoo {

/// Text for messages: "rank 2", "ranks 0, 2 and 5", "no rank".
std::string rank_list(std::span<const int> ranks);

/// Of ranks that others waited for: "rank 2 did not answer (...)", with what may be the cause.
std::string unanswered_text(std::span<const int> ranks);

/// Text for messages: "5 s", "0.25 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace shampoo
