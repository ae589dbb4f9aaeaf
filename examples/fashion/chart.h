// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>

#include "examples/fashion/training.h"

namespace fashion {

/// Draws the training loss of every run over the epochs, as a PNG.
/// Throws std::runtime_error when the file cannot be written.
void draw_losses(std::span<const Outcome> outcomes, const std::filesystem::path& file);

}  // namespace fashion
