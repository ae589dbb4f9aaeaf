// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>

#include "examples/gpt/result.h"

namespace gpt {

/// Draws the validation losses over steps and over seconds, of each method at its best rate, as a
/// PNG. Throws std::runtime_error when the file cannot be written.
void draw_losses(std::span<const Result> results, double target, const std::filesystem::path& file);

}  // namespace gpt
