// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <map>
#include <string>
#include <string_view>

namespace shampoo {

/// The variables of a process.
using Environment = std::map<std::string, std::string, std::less<>>;

/// From a null-terminated array of "NAME=value", by default those of this process.
Environment read_environment(const char* const* variables = environ);

/// The value, or `otherwise` where the variable is not set or empty.
std::string value_or(const Environment& environment, std::string_view name,
                     std::string_view otherwise);

}  // namespace shampoo
