// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::checkpoint::command::test {

/// Saves directory/step-N with user tensors of one byte each and no state.
std::filesystem::path save_named(const std::filesystem::path& directory, std::int64_t step,
                                 const std::vector<std::string>& tensors,
                                 const std::map<std::string, UserValue>& values = {});

}  // namespace shampoo::checkpoint::command::test
