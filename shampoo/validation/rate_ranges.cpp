// SPDX-License-Identifier: Apache-2.0
#include "shampoo/validation/rate_ranges.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "grouping/number_text.h"
#include "shampoo/averaging/averaging.h"
#include "shampoo/preconditioners/preconditioner.h"

namespace shampoo {

namespace {

constexpr std::array<RateUse, 2> always_read{
    {{"learning_rate", RateRange::at_least_zero}, {"weight_decay", RateRange::at_least_zero}}};
constexpr std::array<RateUse, 2> read_by_the_filter{
    {{"beta1", RateRange::unit_open}, {"beta3", RateRange::unit_open}}};
constexpr std::array<RateUse, 1> read_with_a_peak{{{"peak_learning_rate", RateRange::positive}}};

/// The rate with the same meaning that another kind reads.
std::string_view counterpart(std::string_view rate) {
  if (rate == "beta2") return "grafting_beta2";
  if (rate == "epsilon") return "grafting_epsilon";
  if (rate == "grafting_beta2") return "beta2";
  if (rate == "grafting_epsilon") return "epsilon";
  return {};
}

using Values = std::array<std::optional<double>, rate_count>;

Values values_of(const Rates& rates) {
  Values values;
  std::size_t i = 0;
  for_each_field([&](std::string_view, const auto& value) { values[i++] = value; }, rates);
  return values;
}

const std::array<std::string_view, rate_count>& rate_names() {
  static const auto names = [] {
    std::array<std::string_view, rate_count> all;
    std::size_t i = 0;
    const Rates rates;
    for_each_field([&](std::string_view name, const auto&) { all[i++] = name; }, rates);
    return all;
  }();
  return names;
}

std::size_t index_of(std::string_view rate) {
  const auto& names = rate_names();
  const auto found = std::ranges::find(names, rate);
  if (found == names.end()) throw std::logic_error("no rate: " + std::string(rate));
  return static_cast<std::size_t>(found - names.begin());
}

std::string text_of(const std::optional<double>& value) {
  return value ? grouping::exact_text(*value) : "unset";
}

/// The texts of a range without an end in float32 and in float64.
struct OpenRange {
  std::string_view in_float32, in_float64;
};

void check_open(bool holds, const OpenRange& range, Arithmetic arithmetic, std::string_view rate,
                double value, const Checks& checks) {
  if (arithmetic == Arithmetic::float32)
    checks.require(holds && std::isfinite(static_cast<float>(value)), rate, range.in_float32,
                   value);
  else
    checks.require(holds && std::isfinite(value), rate, range.in_float64, value);
}

void check_range(RateRange range, Arithmetic arithmetic, std::string_view rate, double value,
                 const Checks& checks) {
  switch (range) {
    case RateRange::unread:
      return;
    case RateRange::at_least_zero:
      return check_open(value >= 0, {"in [0, 2^128)", "in [0, inf)"}, arithmetic, rate, value,
                        checks);
    case RateRange::positive:
      return check_open(value > 0, {"in (0, 2^128)", "in (0, inf)"}, arithmetic, rate, value,
                        checks);
    case RateRange::normal:
      return check_open(value >= 0x1p-126, {"in [2^-126, 2^128)", "in [2^-126, inf)"}, arithmetic,
                        rate, value, checks);
    case RateRange::unit_open:
      return checks.unit_open(rate, value);
    case RateRange::unit_closed:
      return checks.unit_closed(rate, value);
    case RateRange::unit_positive:
      return checks.unit_positive(rate, value);
    case RateRange::zero_only:
      return checks.require(value == 0, rate, "0 with a pseudo-inverse", value);
  }
}

}  // namespace

RateRanges::RateRanges(const Recipe& recipe) : arithmetic_(recipe.arithmetic) {
  const auto read = [&](std::span<const RateUse> uses) {
    for (const RateUse& use : uses) ranges_[index_of(use.name)] = use.range;
  };
  read(always_read);
  if (recipe.filter) read(read_by_the_filter);
  if (recipe.weight_decay == WeightDecay::corrected ||
      recipe.weight_decay == WeightDecay::independent)
    read(read_with_a_peak);
  read(preconditioner_rates(recipe));
  read(grafting_rates(recipe));
  read(averaging_rates(recipe));
}

void RateRanges::check(const Rates& rates, std::string_view group,
                       std::string_view parameter) const {
  static const Values usual = values_of({});
  const Checks checks(group, parameter);
  Values values = values_of(rates);
  // The decay divides by it: unset, it becomes the learning rate of the construction.
  if (reads("peak_learning_rate") && !rates.peak_learning_rate)
    values[index_of("peak_learning_rate")] = rates.learning_rate;
  for (std::size_t i = 0; i < rate_count; ++i) {
    if (ranges_[i] == RateRange::unread && values[i] != usual[i])
      fail_unread(i, values[i], usual[i], checks);
    if (values[i]) check_range(ranges_[i], arithmetic_, rate_names()[i], *values[i], checks);
  }
}

void RateRanges::check(const Group& group) const {
  check(group.common_rates(), group.title());
  std::size_t checked = group.parameters().size();
  for (const OwnRate& own : group.own_rates()) {
    if (own.parameter == checked) continue;
    checked = own.parameter;
    check(group.rates_of(checked), group.title(), group.parameters()[checked].name);
  }
}

void RateRanges::fail_unread(std::size_t rate, std::optional<double> value,
                             std::optional<double> usual, const Checks& checks) const {
  const std::string_view name = rate_names()[rate], other = counterpart(name);
  std::string message = checks.subject() + ": " + std::string(name) + " must be " + text_of(usual) +
                        ", its default, as the group's recipe does not read it, got " +
                        text_of(value);
  if (!other.empty() && reads(other)) message += "; set " + std::string(other) + " instead";
  throw std::invalid_argument(message);
}

bool RateRanges::reads(std::string_view rate) const {
  const auto& names = rate_names();
  return std::ranges::find(names, rate) != names.end() &&
         ranges_[index_of(rate)] != RateRange::unread;
}

Rates RateRanges::read_from(const Rates& rates, const Rates& unread) const {
  const Values others = values_of(unread);
  Rates result = rates;
  std::size_t i = 0;
  for_each_field(
      [&](std::string_view, auto& rate) {
        if (ranges_[i] == RateRange::unread) assign(rate, others[i]);
        ++i;
      },
      result);
  return result;
}

std::vector<std::string_view> RateRanges::unread() const {
  std::vector<std::string_view> unread;
  for (const std::string_view name : rate_names())
    if (!reads(name)) unread.push_back(name);
  return unread;
}

}  // namespace shampoo
