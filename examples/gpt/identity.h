// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "examples/gpt/training.h"
#include "shampoo/shampoo.h"

namespace gpt {

/// By its option, all that the values of a run follow from, for its checkpoints; but not how many
/// ranks and threads compute them, which may change.
using Identity = std::map<std::string, shampoo::UserValue>;

Identity identity(const Text& text, const Task& task, const Attempt& attempt);

/// Throws std::invalid_argument with the first option that differs, and both values of it.
void require_same(const Identity& saved, const Identity& asked,
                  const std::filesystem::path& folder);

}  // namespace gpt
