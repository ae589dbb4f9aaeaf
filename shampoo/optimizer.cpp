// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include "kernels/range.h"
#include "shampoo/optimizer_parts.h"
#include "shampoo/protocol/diagnostics.h"
#include "shampoo/validation/checks.h"
#include "shampoo/validation/validate_recipe.h"

namespace shampoo {

namespace {

/// The label, with a number behind it where it is taken.
std::string unique_label(const std::string& label, std::set<std::string>& taken) {
  std::string text = label;
  for (int n = 2; !taken.insert(text).second; ++n) text = label + " " + std::to_string(n);
  return text;
}

}  // namespace

std::vector<std::unique_ptr<Group>> Optimizer::Parts::make_groups(std::vector<ParameterGroup> added,
                                                                  ValueMemory& all_values) const {
  std::vector<ParameterGroup> all;
  for (const auto& group : groups)
    all.push_back({.parameters = group->parameters_,
                   .rates = group->rates,
                   .recipe = group->recipe_,
                   .label = group->title_ == title_of(group->index_, {}) ? "" : group->label_});
  const int first = static_cast<int>(all.size());
  all.insert(all.end(), added.begin(), added.end());
  all_values = validate_parameters(all);
  for (int g = first; g < static_cast<int>(all.size()); ++g) {
    const std::string title = title_of(g, all[g].label);
    validate_recipe(all[g].recipe, title);
    if (options.learning_rate_factor) require_rate_on_backend(all[g].recipe, title);
    RateRanges(all[g].recipe).check(all[g].rates, title);
  }

  std::set<std::string> labels;
  for (const auto& group : groups) labels.insert(group->label());
  std::vector<std::unique_ptr<Group>> made;
  for (ParameterGroup& group : added) {
    const int index = first + static_cast<int>(made.size());
    std::string label =
        unique_label(group.label.empty() ? title_of(index, {}) : group.label, labels);
    made.push_back(
        std::unique_ptr<Group>(new Group(std::move(group), index, std::move(label), values)));
    RateRanges(made.back()->recipe()).check(*made.back());
    check_schedules(*made.back());
  }
  return made;
}

void Optimizer::Parts::add(std::vector<ParameterGroup> added) {
  if (in_hook) throw std::logic_error("add_group: not in a hook, where a step is under way");
  ValueMemory all_values;
  std::vector<std::unique_ptr<Group>> made;
  std::unique_ptr<Engine> next;
  protocol.agree([&] {
    validate_options(options);
    if (added.empty() && groups.empty() && !options.starts_empty)
      throw std::invalid_argument(
          "groups: must have at least one entry; OptimizerOptions::starts_empty leaves them to "
          "add_group()");
    made = make_groups(std::move(added), all_values);
    std::vector<const Group*> pointers;
    for (const auto& group : made) pointers.push_back(group.get());
    if (!options.trace.empty() && !trace)
      trace = std::make_unique<TraceFile>(options.trace, communicator.rank());
    next = std::make_unique<Engine>(backend, communicator, options, pointers, engine.get(),
                                    trace.get());
    ranges.reserve(ranges.size() + made.size());
    groups.reserve(groups.size() + made.size());
    return plan_text(backend, options, *next) + rates_text(next->groups());
  });
  engine = std::move(next);
  values = std::move(all_values);
  for (const auto& group : made) ranges.emplace_back(group->recipe());
  std::move(made.begin(), made.end(), std::back_inserter(groups));
  engine->clock().start();
  backend.trim();  // of the engine before, which was almost as large
}

Optimizer::Optimizer(Backend& backend, Communicator& communicator,
                     std::vector<ParameterGroup> groups, const OptimizerOptions& options) {
  try {
    parts_ = std::make_unique<Parts>(kernels::kernels_of(backend), communicator, options);
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::exception& error) {  // the other ranks wait in add()
    communicator.abort("it could not construct an optimizer: " + std::string(error.what()));
    throw;
  }
  parts_->add(std::move(groups));
}

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

StepResult Optimizer::step() {
  prepare_step();
  return enqueue_step();
}

std::shared_ptr<const StepHooks> Optimizer::on_step(StepHooks hooks) {
  auto handle = std::make_shared<const StepHooks>(std::move(hooks));
  parts_->hooks.push_back(handle);
  return handle;
}

void Optimizer::prepare_step() {
  parts_->average.withdraw_before_next();  // also where the step throws, or is a replay
  std::erase_if(parts_->hooks, [](const auto& hooks) { return hooks.expired(); });
  parts_->hooks_of_step = parts_->hooks.size();
  parts_->protocol.prepare(*parts_->engine, [this] {
    parts_->for_each_hooks(parts_->hooks_of_step, [this](const StepHooks& hooks) {
      if (hooks.before) hooks.before(*this);
    });
    parts_->protocol.require_training("step");  // a hook may have begun an Evaluation
    parts_->schedules.set(parts_->groups, parts_->protocol.taken());
    parts_->check_rates();
    parts_->engine->prepare();
    parts_->engine->require_gradients();
  });
}

void Optimizer::read_values() {
  parts_->protocol.wait_for_previous();
  parts_->protocol.check_usable();
  parts_->protocol.require_training("read_values");
  parts_->engine->read_values();
}

double Optimizer::loss_scale() const { return parts_->protocol.loss_scale(); }
const float* Optimizer::loss_scale_address() const { return parts_->protocol.loss_scale_address(); }
void Optimizer::unscale(bool allow_float16) {
  parts_->protocol.unscale(*parts_->engine, allow_float16);
}
void Optimizer::zero_gradients() { parts_->protocol.zero_gradients(*parts_->engine); }
void Optimizer::average_gradients(const std::function<void*(const Parameter&)>& zeros) {
  parts_->protocol.begin_averaging();
  if (parts_->communicator.size() == 1) return;
  parts_->protocol.in_collective(averaging_gradients, [&] {
    parts_->average.run(parts_->backend, parts_->communicator, parts_->engine->parameters(),
                        parts_->groups, zeros);
  });
}

StepResult Optimizer::enqueue_step() {
  const kernels::Range range(parts_->backend, "Optimizer::step");
  if (parts_->backend.is_capturing()) return parts_->protocol.take(*parts_->engine);
  parts_->average.withdraw_before_next();  // where take() throws
  StepResult result = parts_->protocol.take(*parts_->engine);
  parts_->average.withdraw();
  parts_->for_each_hooks(parts_->hooks_of_step, [&](const StepHooks& hooks) {
    if (hooks.after) hooks.after(*this, result);
  });
  return result;
}
bool Optimizer::refresh_is_due() const { return parts_->engine->refreshes(); }
bool Optimizer::refresh_is_large() const { return parts_->engine->exceeds_usual(); }
bool Optimizer::refresh_has_host_steps() const { return !parts_->engine->waiting_solver().empty(); }
StepResult Optimizer::latest_result() { return parts_->protocol.latest_result(); }

void Optimizer::add_group(ParameterGroup group) {
  std::vector<ParameterGroup> one;
  one.push_back(std::move(group));
  add_groups(std::move(one));
}
void Optimizer::add_groups(std::vector<ParameterGroup> groups) { parts_->add(std::move(groups)); }

Evaluation Optimizer::evaluate() {
  parts_->protocol.begin_evaluation(*parts_->engine, [this] { parts_->check_rates(); });
  return Evaluation(parts_->end_evaluation);
}

std::string Optimizer::failure() const {
  parts_->protocol.wait_for_previous();
  return parts_->protocol.failure();
}

int Optimizer::group_count() const { return static_cast<int>(parts_->groups.size()); }
Group& Optimizer::group(int index) {
  if (index < 0 || index >= group_count())
    fail_index("optimizer", "group", std::to_string(index), parts_->groups.size());
  return *parts_->groups[static_cast<std::size_t>(index)];
}
Statistics Optimizer::statistics() const {
  parts_->protocol.wait_for_previous();
  return parts_->protocol.statistics();
}

std::int64_t Optimizer::steps(std::string_view parameter) const {
  parts_->protocol.wait_for_previous();
  return parts_->engine->find(parameter).steps;
}

int Optimizer::block_count(std::string_view parameter) const {
  return static_cast<int>(parts_->engine->find(parameter).boxes.size());
}

std::vector<std::string> Optimizer::slot_names(std::string_view parameter, int block) const {
  return parts_->engine->slot_names(parameter, block);
}

SlotView Optimizer::slot(std::string_view parameter, int block, std::string_view slot) const {
  return parts_->engine->slot(parameter, block, slot);
}

std::int64_t Optimizer::state_bytes() const { return parts_->engine->state_bytes(); }

std::int64_t Optimizer::workspace_bytes() const {
  return parts_->engine->workspace_bytes() + parts_->protocol.workspace_bytes();
}

std::string Optimizer::describe() const {
  parts_->protocol.wait_for_previous();
  std::string text = parts_->engine->describe(workspace_bytes(), parts_->protocol.plan_hash());
  return parts_->trace ? text + parts_->trace->description() + "\n" : text;
}

}  // namespace shampoo
