// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shampoo::launcher {

/// The variables of a process.
using Environment = std::map<std::string, std::string, std::less<>>;

/// From a null-terminated array of "NAME=value", such as `environ`.
Environment read_environment(const char* const* variables);

/// "NAME=value" each, sorted: what execve() wants, once pointers are taken.
std::vector<std::string> environment_block(const Environment& environment);

/// The value, or `otherwise` where the variable is not set or empty.
std::string value_or(const Environment& environment, std::string_view name,
                     std::string_view otherwise);

}  // namespace shampoo::launcher
