// SPDX-License-Identifier: Apache-2.0
#include "shampoo/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "kernels/error.h"
#include "shampoo/training.h"
#include "shampoo/validate.h"
#include "shampoo/validate_parameters.h"

namespace shampoo {

Group::Group(ParameterGroup group, int index, const ValueMemory& values)
    : rates(group.rates),
      recipe_(std::move(group.recipe)),
      parameters_(std::move(group.parameters)),
      index_(index),
      values_(values) {
  // A schedule may change the learning rate from the first step on.
  const bool reads_peak = recipe_.weight_decay == WeightDecay::corrected ||
                          recipe_.weight_decay == WeightDecay::independent;
  if (reads_peak && !rates.peak_learning_rate) rates.peak_learning_rate = rates.learning_rate;
}

void Group::set_gradient(std::size_t j, void* data) {
  Parameter& parameter = parameters_.at(j);
  void* const before = std::exchange(parameter.gradient.data, data);
  if (data == before) return;
  try {
    validate_gradient(parameter, index_, values_);
  } catch (...) {
    parameter.gradient.data = before;
    throw;
  }
}

/// Everything behind the interface.
struct Optimizer::Parts {
  Parts(Backend& b, Communicator& c, const OptimizerOptions& o)
      : backend(b),
        communicator(c),
        options(o),
        gradient_scale(b, sizeof(double)),
        verdict(b, sizeof(kernels::Verdict)) {
    const double one = 1;
    backend.upload(gradient_scale.data(), &one, sizeof(one));
    backend.synchronize();
  }

  void add(std::vector<ParameterGroup> added);
  void prepare();
  StepResult enqueue();
  kernels::Verdict read_verdict();
  StepResult conclude(const kernels::Verdict& outcome);
  void refuse(std::string_view name);

  Backend& backend;
  Communicator& communicator;
  OptimizerOptions options;
  ValueMemory values;
  std::vector<std::unique_ptr<Group>> groups;
  std::unique_ptr<Training> training;
  kernels::Buffer gradient_scale, verdict;
  Statistics statistics;
  int refused_in_a_row = 0;
  bool prepared = false;
};

void Optimizer::Parts::add(std::vector<ParameterGroup> added) {
  std::vector<ParameterGroup> all;
  for (const auto& group : groups)
    all.push_back({group->parameters_, group->rates, group->recipe_});
  const int first = static_cast<int>(all.size());
  all.insert(all.end(), added.begin(), added.end());
  ValueMemory all_values = validate_parameters(all);
  for (int g = first; g < static_cast<int>(all.size()); ++g) {
    validate_recipe(all[g].recipe, g);
    validate_rates(all[g].rates, all[g].recipe, g);
  }

  std::vector<std::unique_ptr<Group>> made;
  for (ParameterGroup& group : added) {
    const int index = first + static_cast<int>(made.size());
    made.push_back(std::unique_ptr<Group>(new Group(std::move(group), index, values)));
    validate_rates(made.back()->rates, made.back()->recipe(), index);
  }
  std::vector<const Group*> pointers;
  for (const auto& group : made) pointers.push_back(group.get());
  training = std::make_unique<Training>(backend, communicator, options.merge_groups, pointers,
                                        training.get());
  values = std::move(all_values);
  std::move(made.begin(), made.end(), std::back_inserter(groups));
}

void Optimizer::Parts::prepare() {
  for (int g = 0; g < static_cast<int>(groups.size()); ++g)
    validate_rates(groups[g]->rates, groups[g]->recipe(), g);
  training->prepare();
  prepared = true;
}

kernels::Verdict Optimizer::Parts::read_verdict() {
  kernels::Verdict outcome;
  backend.download(&outcome, verdict.data(), sizeof(outcome));
  backend.synchronize();
  return outcome;
}

StepResult Optimizer::Parts::enqueue() {
  if (!std::exchange(prepared, false))
    throw std::logic_error("enqueue_step: prepare_step() must be called before every step");
  kernels::Verdict* const to = static_cast<kernels::Verdict*>(verdict.data());
  const StepInputs inputs{.gradient_scale = static_cast<const double*>(gradient_scale.data()),
                          .proceed = &to->proceed};

  training->scan(inputs, options.non_finite != NonFinite::ignore, to);
  // A refresh has host steps, which must not happen in a refused step.
  if (training->refreshes()) {
    const kernels::Verdict outcome = read_verdict();
    if (!outcome.proceed) return conclude(outcome);
  }
  training->enqueue(inputs, statistics);
  return conclude(read_verdict());
}

StepResult Optimizer::Parts::conclude(const kernels::Verdict& outcome) {
  const std::string_view bad = training->name(outcome.first_bad);
  const StepResult result(outcome.proceed != 0, bad, std::sqrt(outcome.squared_norm));
  if (!result.applied()) {
    refuse(bad);
    return result;
  }
  ++statistics.applied_steps;
  refused_in_a_row = 0;
  training->count_step();
  const std::string exhausted = training->exhausted_block();
  if (!exhausted.empty()) throw NumericalError(exhausted);
  return result;
}

void Optimizer::Parts::refuse(std::string_view name) {
  ++statistics.refused_steps;
  ++refused_in_a_row;
  const auto what = [&] {
    return "parameter '" + std::string(name) + "': its gradient is not finite; ";
  };
  if (options.non_finite == NonFinite::error)
    throw NumericalError(what() + "the step was refused and nothing changed");
  if (refused_in_a_row >= options.refused_in_a_row)
    throw NumericalError(what() + std::to_string(refused_in_a_row) +
                         " steps in a row were refused, and nothing changed in them");
}

Optimizer::Optimizer(Backend& backend, Communicator& communicator,
                     std::vector<ParameterGroup> groups, const OptimizerOptions& options) {
  validate_options(options);
  if (groups.empty()) throw std::invalid_argument("groups: must have at least one entry");
  parts_ = std::make_unique<Parts>(backend, communicator, options);
  parts_->add(std::move(groups));
}

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

StepResult Optimizer::step() {
  prepare_step();
  return enqueue_step();
}

void Optimizer::prepare_step() { parts_->prepare(); }
StepResult Optimizer::enqueue_step() { return parts_->enqueue(); }

void Optimizer::add_group(ParameterGroup group) {
  std::vector<ParameterGroup> one;
  one.push_back(std::move(group));
  parts_->prepared = false;
  parts_->add(std::move(one));
}

int Optimizer::group_count() const { return static_cast<int>(parts_->groups.size()); }
Group& Optimizer::group(int index) { return *parts_->groups.at(static_cast<std::size_t>(index)); }
Statistics Optimizer::statistics() const { return parts_->statistics; }

std::int64_t Optimizer::steps(std::string_view parameter) const {
  return parts_->training->find(parameter).steps;
}

int Optimizer::block_count(std::string_view parameter) const {
  return static_cast<int>(parts_->training->find(parameter).boxes.size());
}

std::vector<std::string> Optimizer::slot_names(std::string_view parameter, int block) const {
  return parts_->training->slot_names(parameter, block);
}

SlotView Optimizer::slot(std::string_view parameter, int block, std::string_view slot) const {
  return parts_->training->slot(parameter, block, slot);
}

std::int64_t Optimizer::state_bytes() const { return parts_->training->state_bytes(); }

std::int64_t Optimizer::workspace_bytes() const {
  return parts_->training->workspace_bytes() +
         static_cast<std::int64_t>(parts_->gradient_scale.bytes() + parts_->verdict.bytes());
}

std::string Optimizer::describe() const { return parts_->training->describe(); }

}  // namespace shampoo
