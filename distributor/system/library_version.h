// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shampoo {

/// "0.1.0".
std::string_view library_version();

}  // namespace shampoo
