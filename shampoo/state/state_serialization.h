// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "shampoo/state_dict.h"

namespace shampoo {

/// A state dict without the bytes of its tensors, as a record for other ranks.
std::string serialize_description(const StateDict& dict);
/// The inverse; `bytes` stay empty. Throws CommunicationError for a malformed record.
StateDict deserialize_description(std::string_view record);

}  // namespace shampoo
