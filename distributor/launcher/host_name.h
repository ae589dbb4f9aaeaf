// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo::launcher {

/// This machine's, as gethostname() has it.
std::string host_name();

}  // namespace shampoo::launcher
