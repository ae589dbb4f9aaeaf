// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "shampoo/state_dict.h"

namespace shampoo {

/// The numbers of a tensor of float32 in float64, or of float64 in float32.
std::vector<std::byte> converted_bytes(const StateTensor& tensor, Type type);

}  // namespace shampoo
