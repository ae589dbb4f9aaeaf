// SPDX-License-Identifier: Apache-2.0
#include "shampoo/group.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "shampoo/protocol/diagnostics.h"
#include "shampoo/validation/validate_parameters.h"

namespace shampoo {

Group::Group(ParameterGroup group, int index, const ValueMemory& values)
    : rates(group.rates),
      schedules(std::move(group.schedules)),
      recipe_(std::move(group.recipe)),
      parameters_(std::move(group.parameters)),
      index_(index),
      values_(values) {
  // A schedule may change the learning rate from the first step on.
  const bool reads_peak = recipe_.weight_decay == WeightDecay::corrected ||
                          recipe_.weight_decay == WeightDecay::independent;
  if (reads_peak && !rates.peak_learning_rate) rates.peak_learning_rate = rates.learning_rate;
  base_rates = rates;
}

void Group::set_gradient(std::size_t j, void* data) {
  if (j >= parameters_.size())
    fail_index("group " + std::to_string(index_), "parameter", std::to_string(j),
               parameters_.size());
  Parameter& parameter = parameters_[j];
  void* const before = std::exchange(parameter.gradient.data, data);
  if (data == before) return;
  try {
    validate_gradient(parameter, index_, values_);
  } catch (...) {
    parameter.gradient.data = before;
    throw;
  }
}

void Group::set_gradient(std::size_t j, const Tensor& gradient) {
  if (j < parameters_.size() && gradient.data)
    validate_same_layout(parameters_[j], index_, gradient);
  set_gradient(j, gradient.data);
}

void Group::set_gradient(std::string_view name, const Tensor& gradient) {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  if (found == parameters_.end())
    throw std::out_of_range("group " + std::to_string(index_) + ": there is no parameter '" +
                            std::string(name) + "'");
  set_gradient(static_cast<std::size_t>(found - parameters_.begin()), gradient);
}

}  // namespace shampoo
