// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "distributor/launcher/launch_options.h"

namespace shampoo::launcher::test {

/// Of "shampoorun" with these words. Throws what read_launch_options() throws.
inline LaunchOptions launch_options_of(const std::vector<std::string>& words,
                                       const Environment& environment = {}) {
  std::vector<const char*> argv{"shampoorun"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out;
  return read_launch_options(static_cast<int>(argv.size()), argv.data(), environment, out).value();
}

/// "" where nothing is wrong.
inline std::string usage_error_of(const std::vector<std::string>& words,
                                  const Environment& environment = {}) {
  try {
    launch_options_of(words, environment);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

/// What goes to the console in place of a launch.
inline std::string notice_of(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"shampoorun"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out;
  const auto options = read_launch_options(static_cast<int>(argv.size()), argv.data(), {}, out);
  return options ? "launches" : out.str();
}

}  // namespace shampoo::launcher::test
