// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shampoo {

/// Version of the library as "major.minor.patch".
std::string_view library_version();

}  // namespace shampoo
