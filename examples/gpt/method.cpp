// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/method.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gpt {

namespace {

using namespace shampoo::recipes;

constexpr double embedding_rate = 3e-3;

std::vector<Method> all_methods() {
  const auto with_rate = [](shampoo::Rates rates, double rate) {
    rates.learning_rate = rate;
    return rates;
  };
  return {{"shampoo", "Shampoo", {}, with_rate({}, 12e-3)},
          {"soap", "SOAP", soap(), with_rate(soap_rates(), 12e-3)},
          {"muon", "Muon", muon(), with_rate(muon_rates(), 12e-3)},
          {"adamw", "AdamW", adamw(), with_rate({}, 6e-3)}};
}

/// Rises in a straight line, then half a cosine down to a tenth, or constant and a straight line
/// down to 0 in the last fifth.
shampoo::Schedule schedule_of(const Settings& settings, double peak) {
  namespace kinds = shampoo::schedules;
  const std::int64_t warm_up = std::min(settings.warm_up, settings.steps - 1);
  const std::int64_t rest = settings.steps - warm_up, decay = (settings.steps + 4) / 5;
  const double start = 1.0 / static_cast<double>(warm_up + 1);
  if (settings.schedule == "wsd")
    return kinds::WarmUpStableDecay{.warm_up = warm_up,
                                    .stable = std::max<std::int64_t>(0, rest - decay),
                                    .decay = std::min(rest, decay),
                                    .start_factor = start};
  const kinds::Cosine down{.steps = rest, .minimum = 0.1 * peak};
  if (warm_up == 0) return down;
  return kinds::Sequence{{kinds::Linear{.start_factor = start, .steps = warm_up}, down}, {warm_up}};
}

}  // namespace

std::span<const Method> methods() {
  static const std::vector<Method> all = all_methods();
  return all;
}

const Method& method(const std::string& key) {
  const auto found = std::ranges::find(methods(), key, &Method::key);
  if (found == methods().end()) throw std::invalid_argument("there is no optimizer " + key);
  return *found;
}

double peak_rate(const Method& method, const Settings& settings) {
  return settings.rate.value_or(method.rates.learning_rate);
}

std::vector<shampoo::ParameterGroup> parameter_groups(const Method& method,
                                                      const Settings& settings,
                                                      std::vector<shampoo::Parameter> parameters) {
  shampoo::Recipe recipe = method.recipe;
  shampoo::Rates rates = method.rates;
  rates.learning_rate = peak_rate(method, settings);
  rates.weight_decay = settings.weight_decay;
  rates.beta2 = settings.beta2.value_or(rates.beta2);
  if (recipe.grafting && settings.grafting == "sgd") recipe.grafting = shampoo::Sgd{};
  if (settings.grafting == "none") recipe.grafting.reset();
  if (recipe.blocking.size != shampoo::grouping::never_cut) {
    recipe.blocking.size = settings.block.value_or(static_cast<int>(recipe.blocking.size));
    const std::int64_t every = settings.refresh.value_or(static_cast<int>(recipe.refresh.every));
    if (recipe.refresh.first != 1) recipe.refresh.first = every;
    recipe.refresh.every = every;
  }
  shampoo::Rates others =
      method.key == "adamw" ? rates : shampoo::Rates{.learning_rate = embedding_rate};
  others.learning_rate = settings.embedding_rate.value_or(others.learning_rate);
  others.weight_decay = settings.weight_decay;
  auto groups =
      shampoo::routes::language_model(recipe, rates, others)
          .add({.names = {"lm_head.weight"}}, {.recipe = adamw(), .rates = others, .label = "head"})
          .groups(std::move(parameters));
  for (shampoo::ParameterGroup& group : groups)
    group.schedules["learning_rate"] = schedule_of(settings, group.rates.learning_rate);
  return groups;
}

}  // namespace gpt
