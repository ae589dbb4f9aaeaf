// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "shampoo/state_dict.h"

namespace shampoo {

/// The state dict with other names of its parameters: see LoadOptions::rename.
StateDict renamed_copy(const StateDict& dict,
                       const std::function<std::string(const std::string&)>& rename);

}  // namespace shampoo
