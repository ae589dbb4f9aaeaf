// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/state_serialization.h"

#include "distributor/serialization.h"
#include "grouping/number_text.h"

namespace shampoo {

namespace grouping {

template <typename Visitor>
void for_each_field(Visitor&& visit, Box& box) {
  visit("offset", box.offset);
  visit("extent", box.extent);
}

}  // namespace grouping

template <typename Visitor>
void for_each_field(Visitor&& visit, RecipeField& field) {
  visit("name", field.name);
  visit("value", field.value);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, BlockState& block) {
  visit("box", block.box);
  visit("failures", block.failures);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, ParameterState& parameter) {
  visit("name", parameter.name);
  visit("shape", parameter.shape);
  visit("merged_shape", parameter.merged_shape);
  visit("steps", parameter.steps);
  visit("averaging_weight_sum", parameter.averaging_weight_sum);
  visit("recipe", parameter.recipe);
  visit("rates", parameter.rates);
  visit("base_rates", parameter.base_rates);
  visit("own_rates", parameter.own_rates);
  visit("group_rates", parameter.group_rates);
  visit("blocks", parameter.blocks);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, StateTensor& tensor) {
  visit("parameter", tensor.parameter);
  visit("slot", tensor.slot);
  visit("shape", tensor.shape);
  visit("box", tensor.box);
  visit("layout", tensor.layout);
  visit("dimension", tensor.dimension);
  visit("type", tensor.type);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, StateDict& dict) {
  visit("format", dict.format);
  visit("library", dict.library);
  visit("arithmetic", dict.arithmetic);
  visit("attempts", dict.progress.attempts);
  visit("taken", dict.progress.taken);
  visit("skipped_in_a_row", dict.progress.skipped_in_a_row);
  visit("loss_scale", dict.progress.loss_scale);
  visit("good_steps", dict.progress.good_steps);
  visit("gradient_norms", dict.progress.gradient_norms);
  visit("parameters", dict.parameters);
  visit("tensors", dict.tensors);
}

std::string progress_text(const Progress& progress) {
  std::string text = "progress: " + std::to_string(progress.attempts) + " steps, " +
                     std::to_string(progress.taken) + " taken, the last " +
                     std::to_string(progress.skipped_in_a_row) + " skipped; loss scale " +
                     grouping::exact_text(progress.loss_scale) + " for " +
                     std::to_string(progress.good_steps) + " steps; norms of gradients";
  for (const double norm : progress.gradient_norms) text += " " + grouping::exact_text(norm);
  return text + "\n";
}

std::string serialize_description(const StateDict& dict) { return serialize(dict); }
StateDict deserialize_description(std::string_view record) {
  return deserialize<StateDict>(record);
}

}  // namespace shampoo
