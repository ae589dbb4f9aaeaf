// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "distributor/system/library_version.h"
#include "grouping/hash.h"
#include "shampoo/checkpoint/format/json_fields.h"
#include "shampoo/checkpoint/format/json_rows.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

ShardFile file_from(const Json& json) {
  const JsonFields fields(json, "files");
  return {fields.text("name"), static_cast<std::uint64_t>(fields.number("bytes")),
          fields.hash("header_xxh3"), fields.hash("checksums_xxh3")};
}

SavedSlot slot_from(const Json& json) {
  const JsonFields fields(json, "slots");
  const std::string layout = fields.text("layout");
  const auto known = std::ranges::find(layout_names, layout);
  if (known == layout_names.end()) refuse("slots.layout: " + in_quotes(layout) + " is unknown");
  return {fields.text("name"), static_cast<StateLayout>(known - layout_names.begin()),
          fields.small_number("dimension"), fields.dtype()};
}

SavedRecipe recipe_from(const Json& json) {
  if (!json.is_object()) refuse("recipes: must be objects");
  SavedRecipe recipe;
  for (const auto& [name, value] : json.items())
    recipe.push_back({name, text_from(value, "recipes." + name)});
  return recipe;
}

/// A rate that is not there has its default.
Rates rates_from(const Json& json) {
  const JsonFields fields(json, "rates");
  Rates rates;
  for_each_field(
      [&](const char* name, auto& rate) {
        if (!fields.has(name)) return;
        const Json& number = fields.at(name);
        constexpr bool may_lack = !std::is_same_v<std::decay_t<decltype(rate)>, double>;
        if constexpr (may_lack) rate.reset();
        if (may_lack && number.is_null()) return;
        rate = real_from(number, std::string("rates.") + name);
      },
      rates);
  return rates;
}

SavedUserTensor user_tensor_from(const Json& json) {
  const JsonFields fields(json, "user_tensors");
  SavedUserTensor tensor{fields.text("name"), fields.dtype(), fields.numbers("shape"),
                         JsonFields::number<std::uint32_t>(fields.at("file"), "file")};
  if (fields.has("rank")) tensor.rank = fields.small_number("rank");
  return tensor;
}

UserValue value_from(const Json& json, const std::string& where) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned()) return number_from(json, where);
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json == Json{{"float", "inf"}}) return std::numeric_limits<double>::infinity();
  if (json == Json{{"float", "-inf"}}) return -std::numeric_limits<double>::infinity();
  if (json == Json{{"float", "nan"}}) return std::numeric_limits<double>::quiet_NaN();
  refuse(where + ": must be an integer, a number or a string");
}

UserValues values_from(const Json& json, const std::string& where) {
  if (!json.is_object()) refuse(where + ": must be an object");
  UserValues values;
  for (const auto& [name, value] : json.items())
    values.emplace(name, value_from(value, where + ": " + in_quotes(name)));
  return values;
}

SavedParameter parameter_from(const Json& json) {
  const std::string name = JsonFields(json, "parameters").text("name");
  const JsonFields fields(json, "parameters: " + in_quotes(name));
  SavedParameter parameter;
  parameter.name = name;
  parameter.shape = fields.numbers("shape");
  parameter.merged_shape = fields.numbers("merged_shape");
  parameter.block_size = fields.number("block_size");
  parameter.steps = fields.number("steps");
  parameter.averaging_weight_sum = fields.real("averaging_weight_sum");
  parameter.recipe = JsonFields::number<std::uint32_t>(fields.at("recipe"), "recipe");
  parameter.rates = JsonFields::number<std::uint32_t>(fields.at("rates"), "rates");
  if (fields.has("own_rates")) parameter.own_rates = fields.texts("own_rates");
  parameter.slots = fields.numbers<std::uint32_t>("slots");
  parameter.files = fields.numbers<std::uint32_t>("files");
  const auto row = [&](const char* field) -> std::optional<std::uint32_t> {
    if (!fields.has(field)) return std::nullopt;
    return JsonFields::number<std::uint32_t>(fields.at(field), field);
  };
  parameter.base_rates = row("base_rates");
  parameter.group_rates = row("group_rates");
  if (fields.has("failures")) parameter.failures = fields.numbers<int>("failures");
  return parameter;
}

Progress progress_from(const Json& json) {
  const JsonFields fields(json, "progress");
  Progress progress{fields.number("attempts"), fields.number("taken"),
                    fields.small_number("skipped_in_a_row")};
  if (fields.has("loss_scale")) progress.loss_scale = fields.real("loss_scale");
  if (fields.has("good_steps")) progress.good_steps = fields.small_number("good_steps");
  if (fields.has("gradient_norms")) progress.gradient_norms = fields.reals("gradient_norms");
  return progress;
}

SavedOptimizer optimizer_from(const Json& json) {
  const JsonFields fields(json, "optimizers");
  return {fields.text("name"), fields.text("arithmetic"), fields.hash("plan_hash"),
          progress_from(fields.at("progress"))};
}

void verify_checksum(std::string_view text) {
  const std::size_t length = checksum_member("").size();
  if (text.size() < length)
    throw CheckpointError("manifest: cut off: the checksum at its end is missing");
  const std::string_view body = text.substr(0, text.size() - length);
  if (text.substr(body.size()) != checksum_member(body))
    throw CheckpointError("manifest: its checksum is wrong: it was changed or cut off");
}

using Form = JsonMember::Form;

/// Whatever else a newer format may have, these are in it.
void require_known_format(std::string_view text) {
  Json format, library = "an unknown version", features = Json::array();
  parse_members(text,
                {{"format", Form::value, 1, few_units, [&](const Json& json) { format = json; }},
                 {"library", Form::value, 1, few_units, [&](const Json& json) { library = json; }},
                 {"required_features", Form::rows, limits::recipes, few_units,
                  [&](const Json& json) { features.push_back(json); }}});
  const std::string written = "; it was written by version " +
                              (library.is_string() ? library.get<std::string>() : library.dump()) +
                              " of the library, this is version " + std::string(library_version());
  if (format.is_null()) refuse("no format");
  if (!format.is_number_unsigned() || format != newest_format)
    refuse("format " + in_quotes(format.dump()) + ", not " + std::to_string(newest_format) +
           written);
  for (const Json& feature : features)
    if (feature != Json(std::string(optimizers_feature)))
      refuse("the feature " + in_quotes(feature.is_string() ? feature.get<std::string>() : "") +
             " is required to read it, and is unknown" + written);
}

std::vector<JsonMember> members_into(Manifest& manifest) {
  const auto value = [](const char* name, std::size_t most_units, auto take) {
    return JsonMember{name, Form::value, 1, most_units, std::move(take)};
  };
  const auto rows = [](const char* name, std::size_t most, std::size_t most_units, auto take) {
    return JsonMember{name, Form::rows, most, most_units, std::move(take)};
  };
  const auto text = [&](const char* name, std::string& into) {
    return value(name, few_units, [=, &into](const Json& json) { into = text_from(json, name); });
  };
  constexpr std::size_t units_of_recipes = 1 << 16;
  return {text("save", manifest.save),
          text("parent", manifest.parent),
          value("sequence", few_units,
                [&](const Json& json) { manifest.sequence = number_from(json, "sequence"); }),
          text("library", manifest.library),
          text("arithmetic", manifest.arithmetic),
          value("ranks", few_units,
                [&](const Json& json) { manifest.ranks = JsonFields::number<int>(json, "ranks"); }),
          value("step", few_units,
                [&](const Json& json) { manifest.step = number_from(json, "step"); }),
          value("plan_hash", few_units,
                [&](const Json& json) { manifest.plan_hash = hash_from(json, "plan_hash"); }),
          value("progress", few_units,
                [&](const Json& json) { manifest.progress = progress_from(json); }),
          rows("optimizers", limits::recipes, few_units,
               [&](const Json& json) { manifest.optimizers.push_back(optimizer_from(json)); }),
          value("user_values", limits::value_units,
                [&](const Json& json) { manifest.user_values = values_from(json, "user_values"); }),
          rows("rank_values", limits::rows, limits::value_units,
               [&](const Json& json) {
                 manifest.rank_values.push_back(values_from(json, "rank_values"));
               }),
          rows("user_tensors", limits::rows, few_units,
               [&](const Json& json) { manifest.user_tensors.push_back(user_tensor_from(json)); }),
          rows("files", limits::rows, few_units,
               [&](const Json& json) { manifest.files.push_back(file_from(json)); }),
          rows("slots", limits::recipes, few_units,
               [&](const Json& json) { manifest.slots.push_back(slot_from(json)); }),
          rows("recipes", limits::recipes, units_of_recipes,
               [&](const Json& json) { manifest.recipes.push_back(recipe_from(json)); }),
          rows("rates", limits::rows, few_units,
               [&](const Json& json) { manifest.rates.push_back(rates_from(json)); }),
          rows("parameters", limits::rows, many_units,
               [&](const Json& json) { manifest.parameters.push_back(parameter_from(json)); })};
}

}  // namespace

std::size_t units_of(const std::string& name, const UserValue& value) {
  const std::size_t field = text_units(name) + units_of_field;
  if (const auto* const text = std::get_if<std::string>(&value)) return field + text_units(*text);
  const auto* const number = std::get_if<double>(&value);
  if (!number || std::isfinite(*number)) return field + 1;
  return field + units_of_list + text_units("float") + units_of_field + text_units("-inf");
}

UserValues user_values_from_json(const std::string& text) {
  try {
    return values_from(Json::parse(text), "user_values");
  } catch (const Json::exception& error) {
    refuse(std::string("no JSON: ") + error.what());
  }
}

Manifest manifest_from_json(std::string_view text) {
  verify_checksum(text);
  require_known_format(text);
  Manifest manifest;
  const std::vector<JsonMember> members = members_into(manifest);
  const std::vector<bool> found = parse_members(text, members);
  for (std::size_t m = 0; m < members.size(); ++m)
    if (!found[m] && members[m].name != "sequence" && members[m].name != "parent" &&
        members[m].name != "optimizers")
      refuse(std::string(members[m].name) + " is missing");
  validate(manifest);
  return manifest;
}

}  // namespace shampoo::checkpoint
