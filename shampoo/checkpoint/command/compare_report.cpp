// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/compare_report.h"

#include <cmath>

#include "shampoo/checkpoint/command/element.h"
#include "shampoo/checkpoint/command/table.h"

namespace shampoo::checkpoint::command {
namespace {

constexpr const char* missing = "missing";

std::string sides(const Comparison& comparison) {
  Table table({{""},
               {"checkpoint"},
               {"step", Align::right},
               {"ranks", Align::right},
               {"library"},
               {"arithmetic"}});
  for (const auto& [name, side] : {std::pair{"A", comparison.a}, std::pair{"B", comparison.b}})
    table.add({name, path_text(side.path), std::to_string(side.step), std::to_string(side.world),
               printable(side.library_version), printable(side.arithmetic)});
  return table.text();
}

std::string index_text(const std::vector<std::int64_t>& index) {
  std::string text;
  for (const std::int64_t place : index) text += (text.empty() ? "" : ", ") + std::to_string(place);
  return "[" + text + "]";
}

std::string texts(const std::vector<OtherText>& list, const std::string& title) {
  if (list.empty()) return "";
  Table table({{title}, {"A"}, {"B"}});
  for (const OtherText& other : list)
    table.add({printable(other.name), shortened(other.in_a.value_or(missing)),
               shortened(other.in_b.value_or(missing))});
  return "\n" + table.text();
}

std::string contents(const std::vector<OtherElements>& list) {
  if (list.empty()) return "";
  Table table({{"tensor"},
               {"type"},
               {"different", Align::right},
               {"of", Align::right},
               {"first at"},
               {"A", Align::right},
               {"B", Align::right},
               {"largest |A-B|", Align::right},
               {"relative", Align::right}});
  const auto number = [](const std::optional<double>& value) {
    return value ? number_text(*value) : "";
  };
  for (const OtherElements& other : list) {
    const ElementDifference& difference = other.difference;
    const bool counted = difference.count > 0;
    table.add({printable(other.name), other.type, counted ? std::to_string(difference.count) : "?",
               std::to_string(other.elements), counted ? index_text(difference.index) : "",
               difference.in_a, difference.in_b, number(difference.absolute),
               number(difference.relative)});
  }
  return "\n" + table.text();
}

Json json_of(const std::vector<OtherText>& list) {
  Json json = Json::array();
  const auto text = [](const std::optional<std::string>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  for (const OtherText& other : list)
    json.push_back({{"name", other.name}, {"a", text(other.in_a)}, {"b", text(other.in_b)}});
  return json;
}

/// JSON has no infinity.
Json json_of(const std::optional<double>& value) {
  if (!value) return nullptr;
  return std::isfinite(*value) ? Json(*value) : Json(number_text(*value));
}

Json json_of(const OtherElements& other) {
  const ElementDifference& difference = other.difference;
  return {{"name", other.name},
          {"type", other.type},
          {"elements", other.elements},
          {"different", difference.count},
          {"first_index", difference.index},
          {"a", difference.in_a},
          {"b", difference.in_b},
          {"largest_absolute", json_of(difference.absolute)},
          {"largest_relative", json_of(difference.relative)}};
}

Json json_of(const ComparedSide& side) {
  return {{"folder", side.path.string()},
          {"step", side.step},
          {"world", side.world},
          {"library_version", side.library_version},
          {"arithmetic", side.arithmetic}};
}

}  // namespace

std::string text_of(const Comparison& comparison) {
  std::string text = sides(comparison);
  text += texts(comparison.tensors, "tensor") + contents(comparison.content) +
          texts(comparison.values, "value") + "\n";
  if (comparison.steps_count && comparison.a.step != comparison.b.step)
    text += "the steps differ; ";
  const std::uint64_t tensors = comparison.tensors.size() + comparison.content.size();
  text += counted(tensors, "tensor") + " and " + counted(comparison.values.size(), "value") +
          " differ, " + std::to_string(comparison.equal_tensors) + " and " +
          std::to_string(comparison.equal_values) + " are equal\n";
  return text;
}

Json json_of(const Comparison& comparison) {
  Json content = Json::array();
  for (const OtherElements& other : comparison.content) content.push_back(json_of(other));
  return {{"equal", comparison.equal()},
          {"a", json_of(comparison.a)},
          {"b", json_of(comparison.b)},
          {"tensors", json_of(comparison.tensors)},
          {"content", content},
          {"values", json_of(comparison.values)},
          {"equal_tensors", comparison.equal_tensors},
          {"equal_values", comparison.equal_values}};
}

}  // namespace shampoo::checkpoint::command
