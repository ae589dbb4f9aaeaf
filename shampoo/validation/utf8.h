// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shampoo {

/// Whether a checkpoint, whose names are JSON, can hold the text.
bool is_utf8(std::string_view text);

}  // namespace shampoo
