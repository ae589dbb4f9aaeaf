// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_test_torch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "shampoo/recipes.h"
#include "shampoo/validation/rate_ranges.h"
#include "tests/golden_test_recipe.h"

namespace shampoo::test {
namespace {

namespace torch = recipes::torch;

/// Our ranges leave out 0, but not this, which no root of a float64 feels.
constexpr double least_epsilon = 0x1p-126;

/// Our name of a rate that torch.optim has under another one.
std::string rate_named(const std::string& name) {
  static const std::map<std::string, std::string> names = {{"lr", "learning_rate"},
                                                           {"alpha", "beta2"},
                                                           {"eps", "epsilon"},
                                                           {"lr_decay", "learning_rate_decay"}};
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

/// Keyword arguments, each left as it is where the case does not name it.
class Keywords {
 public:
  explicit Keywords(Fields fields) : fields_(std::move(fields)) {}

  Keywords& read(const char* name, double& value) {
    value = fields_.number_or(name, value);
    return *this;
  }
  Keywords& read(const char* name, bool& value) {
    value = fields_.boolean_or(name, value);
    return *this;
  }
  Keywords& read(const char* name, std::array<double, 2>& value) {
    if (fields_.has(name)) value = fields_.at(name).get<std::array<double, 2>>();
    return *this;
  }
  Keywords& read_epsilon(double& value) {
    read("eps", value);
    if (value == 0) value = least_epsilon;
    return *this;
  }
  /// What torch computes with, not what it computes.
  void finish() {
    for (const char* name : {"foreach", "fused", "capturable", "differentiable"})
      if (fields_.has(name) && !fields_.at(name).is_null()) fields_.boolean(name);
    fields_.finish();
  }

 private:
  Fields fields_;
};

/// Momentum that begins at 0 has a buffer if it is scheduled.
template <typename Options>
Recipe with_momentum(Recipe (*recipe)(const Options&), Options options, bool scheduled) {
  if (scheduled && options.momentum == 0) options.momentum = 0.5;
  return recipe(options);
}

GoldenGroup sgd_of(Keywords keywords, bool schedules_momentum) {
  torch::SgdOptions o;
  keywords.read("lr", o.lr).read("momentum", o.momentum).read("dampening", o.dampening);
  keywords.read("weight_decay", o.weight_decay).read("nesterov", o.nesterov);
  keywords.read("maximize", o.maximize).finish();
  return {torch::sgd_rates(o), with_momentum(torch::sgd, o, schedules_momentum), {}};
}

GoldenGroup adagrad_of(Keywords keywords) {
  torch::AdagradOptions o;
  keywords.read("lr", o.lr).read("lr_decay", o.lr_decay).read("weight_decay", o.weight_decay);
  keywords.read("initial_accumulator_value", o.initial_accumulator_value);
  keywords.read_epsilon(o.eps).read("maximize", o.maximize).finish();
  return {torch::adagrad_rates(o), torch::adagrad(o), {}};
}

GoldenGroup rmsprop_of(Keywords keywords, bool schedules_momentum) {
  torch::RmspropOptions o;
  keywords.read("lr", o.lr).read("alpha", o.alpha).read_epsilon(o.eps);
  keywords.read("weight_decay", o.weight_decay).read("momentum", o.momentum);
  keywords.read("centered", o.centered).read("maximize", o.maximize).finish();
  return {torch::rmsprop_rates(o), with_momentum(torch::rmsprop, o, schedules_momentum), {}};
}

template <typename Options>
Options adam_options_of(Keywords& keywords) {
  Options o;
  keywords.read("lr", o.lr).read("betas", o.betas).read_epsilon(o.eps);
  keywords.read("weight_decay", o.weight_decay).read("amsgrad", o.amsgrad);
  keywords.read("maximize", o.maximize);
  return o;
}

GoldenGroup adam_of(Keywords keywords) {
  auto o = adam_options_of<torch::AdamOptions>(keywords);
  keywords.read("decoupled_weight_decay", o.decoupled_weight_decay).finish();
  return {torch::adam_rates(o), torch::adam(o), {}};
}

GoldenGroup adamw_of(Keywords keywords) {
  const auto o = adam_options_of<torch::AdamWOptions>(keywords);
  keywords.finish();
  return {torch::adamw_rates(o), torch::adamw(o), {}};
}

GoldenGroup group_of(const std::string& torch_class, Keywords keywords, bool schedules_momentum) {
  if (torch_class == "SGD") return sgd_of(std::move(keywords), schedules_momentum);
  if (torch_class == "Adagrad") return adagrad_of(std::move(keywords));
  if (torch_class == "RMSprop") return rmsprop_of(std::move(keywords), schedules_momentum);
  if (torch_class == "Adam") return adam_of(std::move(keywords));
  if (torch_class == "AdamW") return adamw_of(std::move(keywords));
  throw std::invalid_argument("torch_class: unknown: " + torch_class);
}

void add_schedule(Fields fields, int steps, GoldenGroup& group) {
  const RateRanges ranges(group.recipe);
  const auto add = [&](const std::string& name, const Numbers& numbers) {
    const std::string rate = rate_named(name);
    Rates known;
    set_rate(known, rate, 0);
    if (std::ssize(numbers) != steps) fields.refuse(name, "one value per step");
    if (!ranges.reads(rate)) return;
    group.schedule[rate] = numbers;
    if (rate == "epsilon") std::ranges::replace(group.schedule[rate], 0.0, least_epsilon);
  };
  for (const auto& item : fields.json().items()) {
    if (item.key() != "betas") {
      add(item.key(), fields.at(item.key()).get<Numbers>());
      continue;
    }
    Numbers first, second;
    for (const auto& betas : fields.at("betas").get<std::vector<std::array<double, 2>>>()) {
      first.push_back(betas[0]);
      second.push_back(betas[1]);
    }
    add("beta1", first);
    add("beta2", second);
  }
}

/// The constructor's keyword arguments, with those that the group overrides. The initial
/// accumulator is the constructor's: torch creates the state of all groups with it.
Json keywords_of(const Json& constructor, Fields group) {
  const std::string initial = "initial_accumulator_value";
  group.number_or(initial, 0);
  Json keywords = constructor;
  for (const auto& [key, value] : group.json().items())
    if (key != initial) keywords[key] = value;
  return keywords;
}

}  // namespace

GoldenGroup torch_group_of(const TorchOptimizer& optimizer, Fields fields, int steps) {
  const bool has_schedule = fields.has("schedule");
  const bool schedules_momentum = has_schedule && fields.object("schedule").has("momentum");
  const Json keywords = keywords_of(optimizer.keywords, fields.object("torch"));
  GoldenGroup group =
      group_of(optimizer.name, Keywords({keywords, fields.where("torch")}), schedules_momentum);
  group.recipe.arithmetic = Arithmetic::float64;
  if (has_schedule) add_schedule(fields.object("schedule"), steps, group);
  fields.finish();
  return group;
}

}  // namespace shampoo::test
