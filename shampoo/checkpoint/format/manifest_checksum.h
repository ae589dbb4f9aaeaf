// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shampoo::checkpoint {

/// Ends the text of a JSON object, which lacks its closing brace, with a last member: the checksum
/// of all text before it.
std::string sealed(const std::string& body);

/// Throws CheckpointError unless sealed() gave this text.
void require_seal(std::string_view text);

}  // namespace shampoo::checkpoint
