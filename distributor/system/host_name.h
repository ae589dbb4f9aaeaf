// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

/// Result of gethostname(); "unknown" if it fails.
std::string host_name();

}  // namespace shampoo
