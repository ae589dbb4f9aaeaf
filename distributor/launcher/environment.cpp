// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/environment.h"

namespace shampoo::launcher {

Environment read_environment(const char* const* variables) {
  Environment environment;
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view variable = *variables;
    const std::size_t equals = variable.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return environment;
}

std::vector<std::string> environment_block(const Environment& environment) {
  std::vector<std::string> block;
  block.reserve(environment.size());
  for (const auto& [name, value] : environment) block.push_back(name + "=" + value);
  return block;
}

std::string value_or(const Environment& environment, std::string_view name,
                     std::string_view otherwise) {
  const auto found = environment.find(name);
  return std::string(found == environment.end() || found->second.empty()
                         ? otherwise
                         : std::string_view(found->second));
}

}  // namespace shampoo::launcher
