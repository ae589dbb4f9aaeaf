// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/rules/host_device.h"

/// Where the lower triangle of a factor lies; see Stack::factors.
namespace shampoo::kernels {

/// Elements before row i.
SHAMPOO_RULE std::int64_t triangle_row(bool packed, std::int64_t side, std::int64_t i) {
  return packed ? i * (i + 1) / 2 : i * (side + 1);
}

/// Elements of the whole array, a root's included.
SHAMPOO_RULE std::int64_t triangle_elements(bool packed, std::int64_t side) {
  return packed ? side * (side + 1) / 2 : side * (side + 1);
}

}  // namespace shampoo::kernels
