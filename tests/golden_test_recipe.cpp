// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_test_recipe.h"

#include <stdexcept>

#include "shampoo/validation/rate_ranges.h"
#include "tests/golden_test_preconditioner.h"

namespace shampoo::test {
namespace {

WeightDecay weight_decay_of(const Fields& fields, const std::string& kind) {
  if (kind == "decoupled") return WeightDecay::decoupled;
  if (kind == "l2") return WeightDecay::l2;
  if (kind == "corrected") return WeightDecay::corrected;
  if (kind == "independent") return WeightDecay::independent;
  fields.refuse("weight_decay", "unknown: " + kind);
}

Averaging averaging_of(Fields fields) {
  const std::string kind = fields.text("kind");
  Averaging averaging;
  if (kind == Momentum::name)
    averaging = Momentum{.nesterov = fields.boolean_or("nesterov", false)};
  else if (kind == "generalized_primal_averaging")
    averaging = PrimalAveraging{};
  else if (kind == ScheduleFree::name)
    averaging = ScheduleFree{.power = fields.number_or("power", 2)};
  else
    fields.refuse("kind", "unknown: " + kind);
  fields.finish();
  return averaging;
}

Refresh refresh_of(Fields& fields) {
  Refresh refresh{.every = fields.integer_or("precondition_frequency", 1), .staggered = false};
  refresh.first = refresh.every;
  const std::string start = "start_preconditioning_step";
  if (!fields.has(start)) return refresh;
  if (!fields.at(start).is_string()) {
    refresh.first = fields.integer(start);
    return refresh;
  }
  if (fields.text(start) != "never") fields.refuse(start, "must be a step or \"never\"");
  refresh.first = std::nullopt;
  return refresh;
}

}  // namespace

Recipe recipe_of(Fields fields) {
  Recipe recipe{.arithmetic = Arithmetic::float64};
  recipe.preconditioner = preconditioner_of(fields.object("preconditioner"));
  recipe.grafting = std::nullopt;
  if (fields.has("grafting")) recipe.grafting = grafting_of(fields.object("grafting"));
  recipe.weight_decay = weight_decay_of(fields, fields.text_or("weight_decay", "decoupled"));
  if (fields.has("averaging")) recipe.averaging = averaging_of(fields.object("averaging"));
  recipe.refresh = refresh_of(fields);
  recipe.blocking.size = fields.integer_or("block_size", 1024);
  // The reference forces it to 2 for its kind of matrices.
  const bool spectral = std::holds_alternative<Spectral>(recipe.preconditioner);
  recipe.blocking.target_order =
      small_integer(fields, "target_dimensionality",
                    fields.integer_or("target_dimensionality", spectral ? 2 : 1));
  recipe.bias_correction = fields.boolean_or("bias_correction", true);
  fields.finish();
  return recipe;
}

std::string rate_name(const std::string& name) {
  return name == "eval_interpolation" ? "evaluation_interpolation" : name;
}

void set_rate(Rates& rates, const std::string& case_name, double value) {
  const std::string name = rate_name(case_name);
  bool found = false;
  for_each_field(
      [&](std::string_view field, auto& rate) {
        if (field != name) return;
        rate = value;
        found = true;
      },
      rates);
  if (!found) throw std::invalid_argument(name + ": not a rate of this library");
}

Rates rates_of(Fields fields, const Recipe& recipe) {
  const RateRanges ranges(recipe);
  Rates rates;
  // Those that the recipe reads and the case does not name are 0.
  if (ranges.reads("grafting_epsilon")) rates.grafting_epsilon = 0;
  if (ranges.reads("grafting_beta2")) rates.grafting_beta2 = 0;
  for (const char* name : {"learning_rate", "beta1", "beta2", "epsilon"}) fields.number(name);
  for (const auto& [name, json] : fields.json().items()) {
    // Cases name some rates whatever the recipe reads.
    Rates unread;
    set_rate(ranges.reads(rate_name(name)) ? rates : unread, name, fields.number(name));
  }
  return rates;
}

}  // namespace shampoo::test
