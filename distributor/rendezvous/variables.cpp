// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/variables.h"

#include <unistd.h>

#include <string_view>

namespace shampoo::joining {

Variables process_variables() {
  Variables variables;
  for (char** next = environ; next != nullptr && *next != nullptr; ++next) {
    const std::string_view line = *next;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

}  // namespace shampoo::joining
