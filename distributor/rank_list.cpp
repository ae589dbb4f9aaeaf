// SPDX-License-Identifier: Apache-2.0
#include "distributor/rank_list.h"

#include <array>
#include <charconv>
#include <cmath>

namespace shampoo {

std::string rank_list(std::span<const int> ranks) {
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string unanswered_text(std::span<const int> ranks) {
  return rank_list(ranks) + " did not answer (ended, stopped, or in no call of this communicator)";
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::array<char, 32> text;
  const double seconds = static_cast<double>(time.count()) / 1000;
  // What is left of 4 s a moment later is still called 4 s.
  const auto end = std::to_chars(text.data(), text.data() + text.size(),
                                 seconds < 1 ? seconds : std::round(10 * seconds) / 10,
                                 std::chars_format::fixed);
  return std::string(text.data(), end.ptr) + " s";
}

}  // namespace shampoo
