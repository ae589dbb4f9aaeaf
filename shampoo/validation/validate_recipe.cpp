// SPDX-License-Identifier: Apache-2.0
#include "shampoo/validation/validate_recipe.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "shampoo/averaging/averaging.h"
#include "shampoo/averaging/value_averaging.h"
#include "shampoo/gradients/gradient_rules.h"
#include "shampoo/preconditioners/preconditioner.h"
#include "shampoo/transforms/projection.h"
#include "shampoo/transforms/update_scaling.h"
#include "shampoo/validation/checks.h"
#include "shampoo/validation/option_names.h"
#include "shampoo/validation/recipe_reader.h"

namespace shampoo {

void validate_recipe(const Recipe& recipe, const std::string& group) {
  const Checks checks(group);
  std::vector<std::string> faults;  // only an enumerator that is none cannot be read back
  read_recipe(fields_of(recipe), {}, faults);
  if (!faults.empty()) throw std::invalid_argument(group + ": " + faults.front());
  check_preconditioner(recipe, checks);
  check_grafting(recipe, checks);
  check_averaging(recipe, checks);
  check_value_averaging(recipe, checks);
  check_update_scaling(recipe, checks);
  check_projection(recipe, checks);
  checks.require(recipe.refresh.every >= 1, "recipe.refresh.every", ">= 1", recipe.refresh.every);
  if (recipe.refresh.first)
    checks.require(*recipe.refresh.first >= 1, "recipe.refresh.first", ">= 1, or empty for never",
                   *recipe.refresh.first);
  checks.require(recipe.blocking.size >= 1, "recipe.blocking.size", ">= 1", recipe.blocking.size);
  checks.require(recipe.blocking.target_order >= 1, "recipe.blocking.target_order", ">= 1",
                 recipe.blocking.target_order);
  if (const std::optional<Type>& type = recipe.communication.type)
    checks.require(*type == Type::float32 || *type == Type::bfloat16, "recipe.communication.type",
                   "float32 or bfloat16, or empty", name_of(*type));
}

void require_rate_on_backend(const Recipe& recipe, const std::string& group) {
  const bool decays =
      recipe.weight_decay == WeightDecay::plain || recipe.weight_decay == WeightDecay::corrected;
  if (decays || averages_iterate(recipe))
    throw std::invalid_argument(
        group + ": recipe." + (decays ? "weight_decay" : "averaging") +
        ": computes with the learning rate on the host; options: learning_rate_factor must be null "
        "with it");
}

void validate_options(const OptimizerOptions& options) {
  require_enumerator("options: non_finite", options.non_finite);
  const Checks checks("options");
  checks.at_least_one("skipped_in_a_row", options.skipped_in_a_row);
  checks.require(options.compare_values_every >= 0, "compare_values_every", ">= 0",
                 options.compare_values_every);
  check(options.gradients);
  const std::int64_t bytes = options.direction_bytes.value_or(0);
  checks.require(bytes >= 0, "direction_bytes", ">= 0", bytes);
}

}  // namespace shampoo
