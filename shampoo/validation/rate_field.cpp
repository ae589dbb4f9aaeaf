// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>

#include "shampoo/rates.h"

namespace shampoo {

namespace {

template <typename Field>
std::string_view name_of(Field Rates::*field) {
  const Rates rates;
  std::string_view found;
  for_each_field(
      [&](std::string_view name, const auto& rate) {
        if (static_cast<const void*>(&rate) == static_cast<const void*>(&(rates.*field)))
          found = name;
      },
      rates);
  return found;
}

}  // namespace

RateField::RateField(double Rates::*field) : name_(name_of(field)) {}
RateField::RateField(std::optional<double> Rates::*field) : name_(name_of(field)) {}

RateField::RateField(std::string_view name) {
  const Rates rates;
  for_each_field(
      [&](std::string_view known, const auto&) {
        if (known == name) name_ = known;
      },
      rates);
  if (!name_.empty()) return;
  std::string all;
  for_each_field([&](std::string_view known,
                     const auto&) { all.append(all.empty() ? "" : ", ").append(known); },
                 rates);
  throw std::invalid_argument("rate: must be one of " + all + ", got '" + std::string(name) + "'");
}

std::optional<double> RateField::of(const Rates& rates) const {
  std::optional<double> value;
  for_each_field(
      [&](std::string_view name, const auto& rate) {
        if (name == name_) value = rate;
      },
      rates);
  return value;
}

void RateField::set(Rates& rates, const std::optional<double>& value) const {
  for_each_field(
      [&](std::string_view name, auto& rate) {
        if (name == name_) assign(rate, value);
      },
      rates);
}

}  // namespace shampoo
