// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "shampoo/group.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// `group`: see title_of(). Throws std::invalid_argument that names group, field and accepted
/// range.
void validate_recipe(const Recipe& recipe, const std::string& group);

/// For OptimizerOptions::learning_rate_factor: throws std::invalid_argument where the recipe
/// computes with learning rates on the host.
void require_rate_on_backend(const Recipe& recipe, const std::string& group);

/// Throws std::invalid_argument that names the option and its accepted range.
void validate_options(const OptimizerOptions& options);

}  // namespace shampoo
