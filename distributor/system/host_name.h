// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

/// This machine's, as gethostname() has it; "unknown" where that fails.
std::string host_name();

}  // namespace shampoo
