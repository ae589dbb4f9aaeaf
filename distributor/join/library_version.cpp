// SPDX-License-Identifier: Apache-2.0
#include "distributor/join/library_version.h"

namespace shampoo::joining {

std::string_view library_version() { return SHAMPOO_VERSION; }

}  // namespace shampoo::joining
