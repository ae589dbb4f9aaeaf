// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace shampoo::launcher {

/// Replaces $name and ${name} for the names given and $$ by $; leaves all else as it is, as
/// Python's string.Template.safe_substitute does.
std::string fill_template(std::string_view text, const std::map<std::string, std::string>& values);

}  // namespace shampoo::launcher
