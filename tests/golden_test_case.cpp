// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_test_case.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "shampoo/validation/rate_ranges.h"
#include "tests/golden_test_json.h"
#include "tests/golden_test_preconditioner.h"
#include "tests/golden_test_recipe.h"
#include "tests/golden_test_torch.h"
#include "tests/support/safetensors.h"

namespace shampoo::test {
namespace {

Json description_of(const std::map<std::string, std::string>& metadata) {
  if (metadata.size() != 1 || !metadata.contains("case"))
    throw std::invalid_argument("__metadata__: must hold one key, case");
  return Json::parse(metadata.at("case"));
}

int count_of(Fields& fields, const std::string& key, std::int64_t least, std::int64_t most) {
  const std::int64_t value = fields.integer(key);
  if (value < least || value > most) fields.refuse(key, "out of range: " + std::to_string(value));
  return static_cast<int>(value);
}

GoldenGroup group_of(Fields fields, int steps) {
  GoldenGroup group;
  group.recipe = recipe_of(fields.object("recipe"));
  group.rates = rates_of(fields.object("rates"), group.recipe);
  if (fields.has("schedule")) {
    Fields schedule = fields.object("schedule");
    for (const auto& [name, values] : schedule.json().items()) {
      Rates known;
      set_rate(known, name, 0);
      const auto numbers = schedule.at(name).get<Numbers>();
      if (std::ssize(numbers) != steps) schedule.refuse(name, "one value per step");
      if (RateRanges(group.recipe).reads(rate_name(name))) group.schedule[name] = numbers;
    }
    schedule.finish();
  }
  fields.finish();
  return group;
}

/// Hands out the tensors of a file, and knows which were left.
class Trajectory {
 public:
  explicit Trajectory(std::map<std::string, SafeTensors::Tensor> tensors)
      : tensors_(std::move(tensors)) {}

  bool has(const std::string& name) const { return tensors_.contains(name); }

  Numbers take(const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw std::invalid_argument(name + ": this tensor is missing");
    if (found->second.shape != shape) throw std::invalid_argument(name + ": has another shape");
    Numbers numbers = std::move(found->second.elements);
    tensors_.erase(found);
    return numbers;
  }

  void finish() const {
    if (!tensors_.empty())
      throw std::invalid_argument(tensors_.begin()->first + ": nothing refers to this tensor");
  }

 private:
  std::map<std::string, SafeTensors::Tensor> tensors_;
};

GoldenParameter parameter_of(Fields fields, const GoldenCase& of, const std::set<int>& absent,
                             Trajectory& trajectory) {
  GoldenParameter parameter;
  parameter.name = fields.text("name");
  parameter.shape = fields.at("shape").get<std::vector<std::int64_t>>();
  parameter.group = count_of(fields, "group", 0, std::ssize(of.groups) - 1);
  fields.finish();

  if (!absent.empty() && (*absent.begin() < 1 || *absent.rbegin() > of.steps))
    throw std::invalid_argument(parameter.name + ": absent at a step that does not exist");
  parameter.initial = trajectory.take(parameter.name + "/value/0", parameter.shape);
  for (int step = 1; step <= of.steps; ++step) {
    const std::string number = std::to_string(step);
    const std::string gradient = parameter.name + "/gradient/" + number;
    if (trajectory.has(gradient) == absent.contains(step))
      throw std::invalid_argument(gradient + ": present, though listed as absent, or the opposite");
    parameter.gradients.emplace_back();
    if (!absent.contains(step))
      parameter.gradients.back() = trajectory.take(gradient, parameter.shape);
    parameter.values.push_back(
        trajectory.take(parameter.name + "/value/" + number, parameter.shape));
  }
  return parameter;
}

void take_evaluations(Fields& fields, GoldenCase& of, Trajectory& trajectory) {
  if (!fields.has("evaluate_after")) return;
  of.evaluate_after = fields.at("evaluate_after").get<std::vector<int>>();
  for (const int step : of.evaluate_after) {
    if (step < 1 || step > of.steps) fields.refuse("evaluate_after", "no such step");
    for (GoldenParameter& parameter : of.parameters)
      parameter.evaluations.push_back(
          trajectory.take(parameter.name + "/evaluation/" + std::to_string(step), parameter.shape));
  }
}

GoldenCase parse(const SafeTensors& file) {
  const Json description = description_of(file.metadata);
  Fields fields(description, "case");
  GoldenCase result;
  fields.text("name");
  result.steps = count_of(fields, "steps", 1, 1'000'000);
  result.sensitivity = fields.number("sensitivity");
  if (!(result.sensitivity >= 0)) fields.refuse("sensitivity", "must not be negative");
  const bool is_torch = fields.text("family") == "torch";
  TorchOptimizer torch;
  if (is_torch) torch.name = fields.text("torch_class");
  if (is_torch && fields.has("torch")) torch.keywords = fields.object("torch").json();
  for (const Json& json : fields.at("groups")) {
    const Fields group(json, "groups." + std::to_string(result.groups.size()));
    result.groups.push_back(is_torch ? torch_group_of(torch, group, result.steps)
                                     : group_of(group, result.steps));
  }

  std::map<std::string, std::set<int>> absent;
  if (fields.has("absent"))
    absent = fields.at("absent").get<std::map<std::string, std::set<int>>>();
  Trajectory trajectory(file.tensors);
  for (const Json& parameter : fields.at("parameters")) {
    Fields of(parameter, "parameters." + std::to_string(result.parameters.size()));
    const std::set<int> without = absent[of.text("name")];
    absent.erase(of.text("name"));
    result.parameters.push_back(parameter_of(std::move(of), result, without, trajectory));
  }
  if (!absent.empty()) fields.refuse("absent", "no such parameter: " + absent.begin()->first);
  take_evaluations(fields, result, trajectory);
  fields.finish();
  trajectory.finish();
  return result;
}

}  // namespace

GoldenOutline read_outline(const std::filesystem::path& path) {
  const Json description = description_of(read_metadata(path));
  Fields fields(description, path.string());
  GoldenOutline outline{.family = fields.text("family"), .groups = fields.at("groups").size()};
  if (outline.family == "torch") return outline;
  for (const Json& group : fields.at("groups"))
    if (outline.unsupported.empty()) outline.unsupported = unsupported_kind({group, "groups"});
  return outline;
}

GoldenCase read_case(const std::filesystem::path& path) { return parse(read_safetensors(path)); }

}  // namespace shampoo::test
