// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

namespace shampoo::test {

/// The mean of the two in the middle of an even number; 0 of none.
inline double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  std::ranges::sort(numbers);
  return (numbers[numbers.size() / 2] + numbers[(numbers.size() - 1) / 2]) / 2;
}

/// One line of JSON, or a line for each of its keys.
inline void print_result(const nlohmann::ordered_json& result, bool json) {
  if (json) {
    std::printf("%s\n", result.dump().c_str());
    return;
  }
  for (const auto& [key, value] : result.items())
    std::printf("%-28s %s\n", key.c_str(), value.dump().c_str());
}

}  // namespace shampoo::test
