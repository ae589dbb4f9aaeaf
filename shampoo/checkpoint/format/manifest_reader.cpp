// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/strict_json.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

ShardFile file_from(const Json& json, const std::string& where) {
  StrictObject object(json, where);
  ShardFile file{object.text("name"), static_cast<std::uint64_t>(object.number("bytes")),
                 object.hash("header_xxh3")};
  object.finish();
  return file;
}

SavedSlot slot_from(const Json& json, const std::string& where) {
  StrictObject object(json, where);
  const std::string layout = object.text("layout");
  const auto known = std::ranges::find(layout_names, layout);
  if (known == layout_names.end()) refuse(where + ".layout: " + in_quotes(layout) + " is unknown");
  SavedSlot slot{object.text("name"), static_cast<StateLayout>(known - layout_names.begin()),
                 object.small_number("dimension"), object.dtype()};
  object.finish();
  return slot;
}

std::vector<RecipeField> recipe_from(const Json& json, const std::string& where) {
  if (!json.is_object()) refuse(where + ": must be an object");
  std::vector<RecipeField> recipe;
  for (const auto& [name, value] : json.items())
    recipe.push_back({name, text_from(value, where + "." + name)});
  return recipe;
}

Rates rates_from(const Json& json, const std::string& where) {
  StrictObject object(json, where);
  Rates rates;
  for_each_field(
      [&](const char* name, auto& rate) {
        const Json& number = object.at(name);
        constexpr bool may_lack = !std::is_same_v<std::decay_t<decltype(rate)>, double>;
        if constexpr (may_lack) rate.reset();
        if (may_lack && number.is_null()) return;
        rate = real_from(number, where + "." + name);
      },
      rates);
  object.finish();
  return rates;
}

SavedBlock block_from(const Json& json, const std::string& where) {
  StrictObject object(json, where);
  SavedBlock block;
  block.state.box = {object.sides("offset"), object.sides("extent")};
  block.state.failures = object.small_number("failures");
  block.state.phase = object.number("phase");
  block.file = static_cast<std::size_t>(object.number("file"));
  block.checksums = object.each("xxh3", hash_from);
  object.finish();
  return block;
}

SavedUserTensor user_tensor_from(const Json& json, const std::string& where) {
  StrictObject object(json, where);
  SavedUserTensor tensor{object.text("name"), object.dtype(), object.sides("shape"),
                         static_cast<std::size_t>(object.number("file")), object.hash("xxh3")};
  object.finish();
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

/// The rows that parameters refer to.
struct Tables {
  std::vector<SavedSlot> slots;
  std::vector<std::vector<RecipeField>> recipes;
  std::vector<Rates> rates;
};

SavedParameter parameter_from(const Json& json, const Tables& tables) {
  StrictObject unnamed(json, "parameters");
  const std::string name = unnamed.text("name");
  StrictObject object(json, "parameters: " + in_quotes(name));
  SavedParameter parameter;
  parameter.state.name = object.text("name");
  parameter.state.shape = object.sides("shape");
  parameter.state.steps = object.number("steps");
  parameter.state.averaging_weight_sum = object.real("averaging_weight_sum");
  parameter.state.recipe = object.row("recipe", tables.recipes);
  parameter.state.rates = object.row("rates", tables.rates);
  parameter.merged_shape = object.sides("merged_shape");
  parameter.slots = object.each("slots", [&](const Json& index, const std::string& where) {
    return StrictObject::row_of(index, where, tables.slots);
  });
  parameter.blocks = object.each("blocks", block_from);
  object.finish();
  return parameter;
}

void verify_checksum(std::string_view text) {
  const std::size_t length = checksum_member("").size();
  if (text.size() < length)
    throw CheckpointError("manifest: cut off: the checksum at its end is missing");
  const std::string_view body = text.substr(0, text.size() - length);
  if (text.substr(body.size()) != checksum_member(body))
    throw CheckpointError("manifest: its checksum is wrong: it was changed or cut off");
  // JSON parsers take it for the end of the text.
  if (body.find('\0') != std::string_view::npos)
    throw CheckpointError("manifest: a NUL byte at byte " + std::to_string(body.find('\0')));
}

}  // namespace

Manifest manifest_from_json(std::string_view text) {
  verify_checksum(text);
  const Json json = parse_strictly(text);
  if (!json.is_object() || !json.contains("schema")) refuse("no schema");
  if (json.at("schema") != manifest_schema)
    refuse("schema " + in_quotes(json.at("schema").dump()) + "; this version reads " +
           std::to_string(manifest_schema));
  StrictObject object(json, "");
  object.small_number("schema");
  object.hash("checksum");
  Manifest manifest;
  manifest.save = object.text("save");
  manifest.sequence = object.number("sequence");
  manifest.parent = object.text("parent");
  manifest.library = object.text("library");
  manifest.arithmetic = object.text("arithmetic");
  manifest.ranks = object.small_number("ranks");
  manifest.step = object.number("step");
  manifest.plan_hash = object.hash("plan_hash");
  StrictObject progress(object.at("progress"), "progress");
  manifest.progress = {progress.number("attempts"), progress.number("taken"),
                       progress.small_number("skipped_in_a_row")};
  progress.finish();
  if (!object.at("user_values").is_object()) refuse("user_values: must be an object");
  for (const auto& [name, value] : object.at("user_values").items())
    manifest.user_values.emplace(name, value_from(value, "user_values: " + in_quotes(name)));
  manifest.user_tensors = object.each("user_tensors", user_tensor_from);
  manifest.files = object.each("files", file_from);
  const Tables tables{object.each("slots", slot_from), object.each("recipes", recipe_from),
                      object.each("rates", rates_from)};
  manifest.parameters = object.each("parameters", [&](const Json& parameter, const std::string&) {
    return parameter_from(parameter, tables);
  });
  object.finish();
  validate(manifest);
  return manifest;
}

}  // namespace shampoo::checkpoint
