// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "shampoo/state_dict.h"

namespace shampoo {

/// All of a state dict but the bytes of its tensors, for other ranks of the same version.
std::string serialize(const StateDict& dict);
/// The inverse; `bytes` stay empty.
StateDict from_words(const std::string& words);

}  // namespace shampoo
