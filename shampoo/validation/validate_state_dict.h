// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/state_dict.h"

namespace shampoo {

/// Checks what a state dict says of itself: format, counters, boxes within shapes, bytes that fit
/// them, each name once, a parameter for every tensor. Throws std::invalid_argument that names the
/// tensor or parameter and the field.
void validate_state_dict(const StateDict& dict);

}  // namespace shampoo
