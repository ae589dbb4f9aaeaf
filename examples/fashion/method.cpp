// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/method.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace fashion {

namespace {

using namespace shampoo::recipes;

constexpr double last_layer_factor = 3;

enum Group { hidden_weights, weights, biases, last_weights, last_biases, group_count };

Method same(std::string key, std::string name, double rate, Settings settings) {
  return {std::move(key), std::move(name), rate, true, settings, settings};
}

std::vector<Method> all_methods() {
  const shampoo::Rates adam{.beta2 = 0.99, .weight_decay = 0.01};
  shampoo::Rates grafted = adam;
  grafted.grafting_beta2 = 0.99;
  shampoo::Rates muon_hidden = muon_rates();
  muon_hidden.weight_decay = adam.weight_decay;
  shampoo::Rates lion = lion_rates(), momentum = sgd_rates(), average = adam;
  lion.weight_decay = 10 * adam.weight_decay;  // its learning rate is that much lower
  momentum.weight_decay = 0.1 * adam.weight_decay;
  average.train_interpolation = gpa_adamw_rates().train_interpolation;
  average.evaluation_interpolation = gpa_adamw_rates().evaluation_interpolation;
  const shampoo::Rates free{.beta2 = 0.99, .weight_decay = 0.01, .train_interpolation = 0.9};

  Method mixed = same("muon", "Muon", 3e-3, {adamw(), adam});
  mixed.hidden = {muon(), muon_hidden};
  Method constant =
      same("schedule_free", "schedule-free AdamW", 1e-2, {schedule_free_adamw(), free});
  constant.decays = false;

  const shampoo::Recipe small_state{
      .preconditioner =
          shampoo::RootInverse{.precondition_1d = false, .root_type = shampoo::Type::float16}};

  return {same("shampoo", "Shampoo", 1e-2, {{}, grafted}),
          same("shampoo_small_state", "Shampoo, float16", 1e-2, {small_state, grafted}),
          same("soap", "SOAP", 3e-3, {soap(), adam}),
          same("kl", "KL-Shampoo", 1e-2, {kl_shampoo(), grafted}),
          mixed,
          same("adamw", "AdamW", 1e-2, {adamw(), adam}),
          same("lion", "Lion", 1e-3, {shampoo::recipes::lion(), lion}),
          same("sgd", "SGD", 1e-1, {sgd(), momentum}),
          constant,
          same("gpa", "GPA-AdamW", 1e-2, {gpa_adamw(), average})};
}

shampoo::ParameterGroup group(const Settings& settings, const Preconditioning& preconditioning) {
  shampoo::ParameterGroup group{.rates = settings.rates, .recipe = settings.recipe};
  shampoo::Recipe& recipe = group.recipe;
  if (recipe.blocking.size == shampoo::grouping::never_cut) return group;
  recipe.blocking = {.size = preconditioning.block, .target_order = 1};
  recipe.refresh.every = preconditioning.refresh;
  recipe.refresh.staggered = !preconditioning.at_once;
  if (recipe.refresh.first != 1) recipe.refresh.first = preconditioning.refresh;
  return group;
}

Group group_of(const std::string& tensor) {
  const bool bias = tensor.ends_with("bias");
  if (tensor.starts_with("fc2")) return bias ? last_biases : last_weights;
  if (bias) return biases;
  return tensor.starts_with("conv1") ? weights : hidden_weights;
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

Method routed_method(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream) throw std::invalid_argument(file.string() + ": cannot be read");
  try {
    return {.key = file.string(),
            .name = file.stem().string(),
            .rate = 1,
            .decays = true,
            .settings = {},
            .hidden = {},
            .routes = shampoo::Routes::from_json(text)};
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(file.string() + ": " + error.what());
  }
}

std::vector<shampoo::ParameterGroup> parameter_groups(const Method& method,
                                                      const Preconditioning& preconditioning,
                                                      std::vector<shampoo::Parameter> parameters) {
  if (method.routes) try {
      return method.routes->groups(std::move(parameters));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(method.key + ": " + error.what());
    }
  std::vector<shampoo::ParameterGroup> groups;
  for (int g = 0; g < group_count; ++g) {
    groups.push_back(group(g == hidden_weights ? method.hidden : method.settings, preconditioning));
    groups.back().rates.learning_rate = g < last_weights ? 1 : last_layer_factor;
    if (g == biases || g == last_biases) groups.back().rates.weight_decay = 0;
  }
  for (shampoo::Parameter& parameter : parameters)
    groups[group_of(parameter.name)].parameters.push_back(std::move(parameter));
  return groups;
}

}  // namespace fashion
