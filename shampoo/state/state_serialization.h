// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "shampoo/state_dict.h"

namespace shampoo {

/// Serializes a state dict without the contents of its tensors.
std::string serialize_description(const StateDict& dict);
/// One line, equal for equal counters.
std::string progress_text(const Progress& progress);
/// Inverse of serialize_description(); `bytes` stay empty. Throws CommunicationError for a
/// malformed record.
StateDict deserialize_description(std::string_view record);

}  // namespace shampoo
