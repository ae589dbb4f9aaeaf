// SPDX-License-Identifier: Apache-2.0
#include "distributor/system/library_version.h"

namespace shampoo {

std::string_view library_version() { return SHAMPOO_VERSION; }

}  // namespace shampoo
