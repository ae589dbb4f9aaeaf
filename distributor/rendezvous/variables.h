// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace shampoo::joining {

/// The variables of an environment by their names.
using Variables = std::map<std::string, std::string, std::less<>>;

/// A copy of this process's.
Variables process_variables();

}  // namespace shampoo::joining
