// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/types.h"

namespace shampoo {

/// Read-only view of one slot of one block, in the backend's memory. Valid until the next step,
/// add_group() or load.
struct SlotView {
  const void* data = nullptr;  ///< [backend]
  Type type = Type::float32;
  std::vector<std::int64_t> extent = {};
  std::vector<std::int64_t> strides = {};  ///< in elements
  bool lower_triangle = false;             ///< only elements (i, j) with j <= i mean something
  bool upper_triangle = false;             ///< only elements (i, j) with j >= i mean something
};

}  // namespace shampoo
