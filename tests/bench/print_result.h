// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>

namespace shampoo::test {

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
