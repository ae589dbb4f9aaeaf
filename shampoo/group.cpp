// SPDX-License-Identifier: Apache-2.0
#include "shampoo/group.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "shampoo/protocol/diagnostics.h"
#include "shampoo/validation/checks.h"
#include "shampoo/validation/validate_parameters.h"

namespace shampoo {

namespace {

auto key(const OwnRate& own) { return std::pair(own.parameter, own.rate); }

/// The parts of a pattern before and behind "%d".
std::pair<std::string_view, std::string_view> parts_of(std::string_view pattern) {
  const std::size_t place = pattern.find('%');
  if (place == pattern.npos || pattern.substr(place, 2) != "%d" ||
      pattern.find('%', place + 1) != pattern.npos)
    throw std::invalid_argument("pattern: must have \"%d\" once and no other '%', got '" +
                                std::string(pattern) + "'");
  return {pattern.substr(0, place), pattern.substr(place + 2)};
}

void check_layers(const std::string& pattern, const std::vector<std::int64_t>& shape,
                  const Tensor& value, const Tensor& gradient, std::int64_t stride,
                  std::int64_t count) {
  const auto require = [&](bool holds, const std::string& what, std::int64_t got) {
    if (!holds)
      throw std::invalid_argument("'" + pattern + "': " + what + ", got " + std::to_string(got));
  };
  for (const std::int64_t side : shape) require(side >= 0, "shape: sides must be >= 0", side);
  require(count >= 1 && count <= most_layers, "count: must be in [1, 2^20]", count);
  const std::int64_t elements = grouping::numel(shape);
  // Layers with strides may interleave.
  const bool dense = value.strides.empty() || (gradient.data && gradient.strides.empty());
  const std::int64_t least = dense ? elements : 0;
  require(stride >= least,
          "stride: must be >= " + std::to_string(least) + ", the elements of a layer", stride);
  require(std::max(stride, elements) < most_elements / count,
          "stride: all " + std::to_string(count) + " layers must have less than 2^40 elements",
          stride);
}

/// The tensor `elements` further on.
Tensor behind(Tensor tensor, std::int64_t elements) {
  const auto bytes = elements * static_cast<std::int64_t>(size_of(tensor.type));
  if (tensor.data) tensor.data = static_cast<std::byte*>(tensor.data) + bytes;
  return tensor;
}

}  // namespace

Group::Group(ParameterGroup group, int index, std::string label, const ValueMemory& values)
    : rates(group.rates),
      schedules(std::move(group.schedules)),
      recipe_(std::move(group.recipe)),
      parameters_(std::move(group.parameters)),
      label_(std::move(label)),
      title_(title_of(index, group.label.empty() ? "" : label_)),
      index_(index),
      values_(values) {
  // A schedule may change the learning rate from the first step on.
  const bool reads_peak = recipe_.weight_decay == WeightDecay::corrected ||
                          recipe_.weight_decay == WeightDecay::independent;
  if (reads_peak)
    rates.peak_learning_rate = first_peak_ = rates.peak_learning_rate.value_or(rates.learning_rate);
  base_rates = rates;
}

void Group::require(std::size_t j) const {
  if (j >= parameters_.size())
    fail_index(title_, "parameter", std::to_string(j), parameters_.size());
}

std::size_t Group::find(std::string_view name) const {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  if (found == parameters_.end())
    throw std::out_of_range(title_ + ": there is no parameter '" + std::string(name) + "'");
  return static_cast<std::size_t>(found - parameters_.begin());
}

void Group::set_rate(std::size_t j, RateField rate, double value) {
  require(j);
  const OwnRate own{j, rate.name(), value};
  const auto place = std::ranges::lower_bound(own_rates_, key(own), {}, key);
  if (place != own_rates_.end() && key(*place) == key(own))
    *place = own;
  else
    own_rates_.insert(place, own);
}

void Group::set_rate(std::string_view name, RateField rate, double value) {
  set_rate(find(name), rate, value);
}

void Group::clear_rate(std::size_t j, RateField rate) {
  require(j);
  std::erase_if(own_rates_,
                [&](const OwnRate& own) { return key(own) == std::pair(j, rate.name()); });
}

void Group::clear_rate(std::string_view name, RateField rate) { clear_rate(find(name), rate); }

Rates Group::rates_of(std::size_t j) const {
  require(j);
  Rates all = common_rates();
  auto own = std::ranges::lower_bound(own_rates_, j, {}, &OwnRate::parameter);
  for (; own != own_rates_.end() && own->parameter == j; ++own)
    RateField(own->rate).set(all, own->value);
  return all;
}

Rates Group::common_rates() const {
  Rates all = rates;
  if (!all.peak_learning_rate) all.peak_learning_rate = first_peak_;
  return all;
}

void Group::replace_rates(GroupRates all) {
  std::vector<OwnRate> before = std::exchange(own_rates_, {});
  try {
    for (const OwnRate& own : all.own) set_rate(own.parameter, own.rate, own.value);
    if (own_rates_.size() < all.own.size())
      throw std::invalid_argument(title_ + ": own: a rate of a parameter must be there once");
  } catch (...) {
    own_rates_ = std::move(before);
    throw;
  }
  rates = all.rates;
}

void Group::set_gradient(std::size_t j, void* data) {
  require(j);
  Parameter& parameter = parameters_[j];
  void* const before = std::exchange(parameter.gradient.data, data);
  if (data == before) return;
  try {
    validate_gradient(parameter, title_, values_);
  } catch (...) {
    parameter.gradient.data = before;
    throw;
  }
}

void Group::set_gradient(std::size_t j, const Tensor& gradient) {
  if (j < parameters_.size() && gradient.data)
    validate_same_layout(parameters_[j], title_, gradient);
  set_gradient(j, gradient.data);
}

void Group::set_gradient_of_type(std::size_t j, const Tensor& gradient) {
  require(j);
  if (gradient.data && gradient.type != parameters_[j].gradient.type)
    validate_same_layout(parameters_[j], title_, gradient);
  set_gradient(j, gradient.data);
}

void Group::set_gradient(std::string_view name, const Tensor& gradient) {
  set_gradient(find(name), gradient);
}

std::vector<Parameter> stacked(std::string_view pattern, const std::vector<std::int64_t>& shape,
                               const Tensor& value, const Tensor& gradient, std::int64_t stride,
                               std::int64_t count) {
  const auto [before, after] = parts_of(pattern);
  check_layers(std::string(pattern), shape, value, gradient, stride, count);
  std::vector<Parameter> layers;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string name(before);
    name.append(std::to_string(i)).append(after);
    layers.push_back({.name = std::move(name),
                      .shape = shape,
                      .value = behind(value, i * stride),
                      .gradient = behind(gradient, i * stride)});
  }
  return layers;
}

void name_parameters(std::vector<ParameterGroup>& groups) {
  std::size_t all = 0, named = 0;
  for (const ParameterGroup& group : groups)
    for (const Parameter& parameter : group.parameters) {
      ++all;
      named += !parameter.name.empty();
    }
  if (named == all) return;
  if (named > 0)
    throw std::invalid_argument("parameters: all must have a name or none, got " +
                                std::to_string(named) + " of " + std::to_string(all));
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t p = 0; p < groups[g].parameters.size(); ++p)
      groups[g].parameters[p].name = "g" + std::to_string(g) + ".p" + std::to_string(p);
}

}  // namespace shampoo
