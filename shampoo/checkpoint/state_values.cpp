// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/state_values.h"

#include <algorithm>
#include <ranges>

#include "shampoo/checkpoint/user_state_text.h"
#include "shampoo/rates.h"

namespace shampoo::checkpoint {
namespace {

constexpr const char* layouts[] = {"elements", "symmetric"};

std::string numbers_text(std::span<const std::int64_t> numbers, const char* between) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? "" : between) + std::to_string(number);
  return text;
}

std::string slots_text(std::span<const SavedSlot> slots) {
  std::string text;
  for (const SavedSlot& slot : slots)
    text += (text.empty() ? "" : " ") + slot.name + ":" +
            layouts[static_cast<std::size_t>(slot.layout)] + ":" + std::to_string(slot.dimension);
  return text;
}

std::string blocks_text(std::span<const BlockState> blocks) {
  std::string text;
  for (const BlockState& block : blocks)
    text += (text.empty() ? "" : " ") + numbers_text(block.box.offset, ".") + ":" +
            numbers_text(block.box.extent, ".") + ":" + std::to_string(block.failures) + ":" +
            std::to_string(block.phase);
  return text;
}

std::string rate_text(double rate) { return exact_text(rate); }
std::string rate_text(const std::optional<double>& rate) {
  return rate ? exact_text(*rate) : "not set";
}

}  // namespace

SavedState describe_state(const StateDict& full, bool derived) {
  SavedState state;
  state.derived = derived;
  state.dict = {.format = full.format,
                .library = full.library,
                .arithmetic = full.arithmetic,
                .progress = full.progress,
                .parameters = full.parameters};
  for (const ParameterState& parameter : full.parameters) state.parameters[parameter.name];
  for (const StateTensor& tensor : full.tensors) {
    SavedParameter& parameter = state.parameters[tensor.parameter];
    parameter.merged_shape = tensor.shape;
    const SavedSlot slot{tensor.slot, tensor.layout, tensor.dimension};
    if (std::ranges::find(parameter.slots, slot) == parameter.slots.end())
      parameter.slots.push_back(slot);
  }
  return state;
}

void add_values(const SavedState& state, std::map<std::string, std::string>& values) {
  const StateDict& dict = state.dict;
  values["format"] = std::to_string(dict.format);
  values["derived"] = state.derived ? "true" : "false";
  values["progress.attempts"] = std::to_string(dict.progress.attempts);
  values["progress.taken"] = std::to_string(dict.progress.taken);
  values["progress.skipped_in_a_row"] = std::to_string(dict.progress.skipped_in_a_row);
  for (const ParameterState& parameter : dict.parameters) {
    const SavedParameter& saved = state.parameters.at(parameter.name);
    const auto add = [&](const std::string& field, std::string text) {
      values[field + "/" + parameter.name] = std::move(text);
    };
    add("shape", numbers_text(parameter.shape, " "));
    add("merged_shape", numbers_text(saved.merged_shape, " "));
    add("steps", std::to_string(parameter.steps));
    add("slots", slots_text(saved.slots));
    add("blocks", blocks_text(parameter.blocks));
    for_each_field(
        [&](const std::string& name, const auto& rate) { add("rates." + name, rate_text(rate)); },
        parameter.rates);
    for (const RecipeField& field : parameter.recipe) add("recipe." + field.name, field.value);
  }
}

}  // namespace shampoo::checkpoint
