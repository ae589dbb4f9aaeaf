// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::checkpoint {

/// Names of parameters in the checkpoint begin with it: "critic/", or nothing without a name.
std::string scope_of(const std::string& optimizer);

/// Throws std::invalid_argument that names the optimizer, for names that are not allowed or occur
/// twice, an optimizer that does, and communicators of other ranks. Returns lines that must be
/// equal on all ranks.
std::string validate(const Optimizers& optimizers);

/// The checkpoint has these optimizers and, where `strict`, no others. Throws
/// std::invalid_argument that names both.
void require_saved(const Manifest& manifest, const Optimizers& optimizers, bool strict);

}  // namespace shampoo::checkpoint
