// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "shampoo/checkpoint/command/compare.h"
#include "shampoo/checkpoint/command/text.h"

namespace shampoo::checkpoint::command {

std::string text_of(const Comparison& comparison);
Json json_of(const Comparison& comparison);

}  // namespace shampoo::checkpoint::command
