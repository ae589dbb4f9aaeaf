// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "shampoo/gradient_options.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// A field of fields_of(), and its value where nobody sets it: that of the options' declaration,
/// with the kinds of this recipe.
struct RecipeFieldDefault {
  std::string name, value, usual;
};

std::vector<RecipeFieldDefault> fields_with_defaults(const Recipe& recipe);

/// "gradients(loss_scaling=none, ...)"
std::string canonical_text(const GradientOptions& options);

}  // namespace shampoo
