// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <concepts>
#include <string>
#include <string_view>

#include "grouping/number_text.h"
#include "shampoo/recipe.h"

namespace shampoo {

namespace {

std::string text_of(double value) { return grouping::exact_text(value); }
std::string text_of(std::integral auto value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(Type type) { return std::string(name_of(type)); }

std::string text_of(WeightDecay decay) {
  constexpr std::array names{"decoupled", "l2", "corrected", "independent"};
  return names.at(static_cast<std::size_t>(decay));
}
std::string text_of(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::float32 ? "float32" : "float64";
}
std::string text_of(SpectralScale scale) {
  constexpr std::array names{"none", "spectral", "match_rms"};
  return names.at(static_cast<std::size_t>(scale));
}
std::string text_of(MinimaxPrecision precision) {
  return precision == MinimaxPrecision::mixed ? "mixed" : "accurate";
}

template <typename... Kinds>
std::string text_of(const std::variant<Kinds...>& kind);
template <typename Value>
std::string text_of(const std::optional<Value>& value);
template <typename Element>
std::string text_of(const std::vector<Element>& list);
template <std::size_t count>
std::string text_of(const std::array<double, count>& list);

/// name(field=value, ...)
template <typename Options>
requires requires { Options::name; }
std::string text_of(const Options& options) {
  std::string text(Options::name);
  bool first = true;
  Options::for_each_field(
      [&](std::string_view name, const auto& value) {
        text += first ? "(" : ", ";
        text.append(name).append("=").append(text_of(value));
        first = false;
      },
      options);
  return first ? text : text + ")";
}

template <typename... Kinds>
std::string text_of(const std::variant<Kinds...>& kind) {
  return std::visit([](const auto& options) { return text_of(options); }, kind);
}

template <typename Value>
std::string text_of(const std::optional<Value>& value) {
  return value ? text_of(*value) : "none";
}

template <typename Element>
std::string text_of(const std::vector<Element>& list) {
  std::string text = "[";
  for (const Element& element : list) text += (text.size() > 1 ? ", " : "") + text_of(element);
  return text + "]";
}

template <std::size_t count>
std::string text_of(const std::array<double, count>& list) {
  return text_of(std::vector<double>(list.begin(), list.end()));
}

}  // namespace

std::vector<RecipeField> fields_of(const Recipe& recipe) {
  std::vector<RecipeField> fields;
  Recipe::for_each_field(
      [&](std::string_view name, const auto& value) {
        fields.push_back({std::string(name), text_of(value)});
      },
      recipe);
  return fields;
}

std::string canonical_text(const Recipe& recipe) { return text_of(recipe); }

}  // namespace shampoo
