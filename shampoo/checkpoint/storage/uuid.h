// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shampoo::checkpoint {

/// A random UUID of version 4. Rank 0 makes it and tells the others.
std::string new_save_id();

/// Whether `text` has the form of one, in lower case.
bool is_save_id(std::string_view text);

}  // namespace shampoo::checkpoint
