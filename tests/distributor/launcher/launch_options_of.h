// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"

namespace shampoo::launcher::test {

/// Sets variables of this process while it lives.
class ScopedVariables {
 public:
  explicit ScopedVariables(const Environment& variables) : variables_(variables) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~ScopedVariables() {
    for (const auto& variable : variables_) unsetenv(variable.first.c_str());
  }
  ScopedVariables(const ScopedVariables&) = delete;
  ScopedVariables& operator=(const ScopedVariables&) = delete;

 private:
  const Environment& variables_;
};

/// Of "shampoorun" with these words. Throws what read_launch_options() throws.
inline LaunchOptions launch_options_of(const std::vector<std::string>& words,
                                       const Environment& environment = {}) {
  const ScopedVariables variables(environment);
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

/// What goes to the console instead of a launch.
inline std::string notice_of(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"shampoorun"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out;
  const auto options = read_launch_options(static_cast<int>(argv.size()), argv.data(), {}, out);
  return options ? "launches" : out.str();
}

}  // namespace shampoo::launcher::test
