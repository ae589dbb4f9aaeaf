// SPDX-License-Identifier: Apache-2.0
#include "distributor/system/environment.h"

namespace shampoo {

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

std::string value_or(const Environment& environment, std::string_view name,
                     std::string_view otherwise) {
  const auto found = environment.find(name);
  return std::string(found == environment.end() || found->second.empty()
                         ? otherwise
                         : std::string_view(found->second));
}

}  // namespace shampoo
