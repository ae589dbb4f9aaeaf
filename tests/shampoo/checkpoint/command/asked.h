// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "shampoo/checkpoint/command/command_options.h"
#include "shampoo/checkpoint/command/run.h"

namespace shampoo::checkpoint::command::test {

/// What the command prints and how it ends.
struct Answer {
  int status = 0;
  std::string text;

  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
  nlohmann::json json() const { return nlohmann::json::parse(text); }
};

/// Throws what read_options() and run() throw.
inline Answer ask(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  const auto options = read_options(arguments, out);
  const int status = options ? run(*options, out) : fine;
  return {status, out.str()};
}

}  // namespace shampoo::checkpoint::command::test
