// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "grouping/hash.h"
#include "grouping/number_text.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

// Keeps the order of the fields.
using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const UserValue& value) {
  const auto* const number = std::get_if<double>(&value);
  if (!number || std::isfinite(*number))
    return std::visit([](const auto& known) { return OrderedJson(known); }, value);
  return {{"float", std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf"}};
}

OrderedJson json_of(const UserValues& values) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : values) json[name] = json_of(value);
  return json;
}

OrderedJson json_of(const Rates& rates) {
  OrderedJson json;
  for_each_field(
      [&](const char* name, const auto& rate) {
        const std::optional<double> number = rate;
        json[name] = number ? OrderedJson(*number) : OrderedJson();
      },
      rates);
  return json;
}

OrderedJson json_of(const SavedRecipe& recipe) {
  OrderedJson json = OrderedJson::object();
  for (const RecipeField& field : recipe) json[field.name] = field.value;
  return json;
}

OrderedJson json_of(const SavedSlot& slot) {
  return {{"name", slot.name},
          {"layout", layout_names.at(static_cast<std::size_t>(slot.layout))},
          {"dimension", slot.dimension},
          {"dtype", name_of(slot.dtype)}};
}

OrderedJson json_of(const ShardFile& file) {
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"header_xxh3", grouping::hexadecimal(file.header_checksum)},
          {"checksums_xxh3", grouping::hexadecimal(file.checksums_checksum)}};
}

OrderedJson json_of(const SavedUserTensor& tensor) {
  OrderedJson json = {{"name", tensor.name},
                      {"dtype", name_of(tensor.dtype)},
                      {"shape", tensor.shape},
                      {"file", tensor.file}};
  if (tensor.rank) json["rank"] = *tensor.rank;
  return json;
}

OrderedJson json_of(const SavedParameter& parameter) {
  OrderedJson json = {{"name", parameter.name},
                      {"shape", parameter.shape},
                      {"merged_shape", parameter.merged_shape},
                      {"block_size", parameter.block_size},
                      {"steps", parameter.steps},
                      {"averaging_weight_sum", parameter.averaging_weight_sum},
                      {"recipe", parameter.recipe},
                      {"rates", parameter.rates},
                      {"slots", parameter.slots},
                      {"files", parameter.files}};
  if (parameter.base_rates) json["base_rates"] = *parameter.base_rates;
  if (!parameter.own_rates.empty()) json["own_rates"] = parameter.own_rates;
  if (parameter.group_rates) json["group_rates"] = *parameter.group_rates;
  if (!parameter.failures.empty()) json["failures"] = parameter.failures;
  return json;
}

/// Without what belongs to gradient options that were not set.
OrderedJson json_of(const Progress& progress) {
  OrderedJson json = {{"attempts", progress.attempts},
                      {"taken", progress.taken},
                      {"skipped_in_a_row", progress.skipped_in_a_row}};
  if (progress.loss_scale != 0) {
    json["loss_scale"] = progress.loss_scale;
    json["good_steps"] = progress.good_steps;
  }
  if (!progress.gradient_norms.empty()) json["gradient_norms"] = progress.gradient_norms;
  return json;
}

OrderedJson json_of(const SavedOptimizer& optimizer) {
  return {{"name", optimizer.name},
          {"arithmetic", optimizer.arithmetic},
          {"plan_hash", grouping::hexadecimal(optimizer.plan_hash)},
          {"progress", json_of(optimizer.progress)}};
}

/// A list, one element a line.
template <typename Parts>
std::string rows_of(const char* field, const Parts& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "\n" : ",\n") + json_of(part).dump();
  return std::string(",\n\"") + field + "\":[" + text + "]";
}

std::string body_of(const Manifest& manifest) {
  // The first line: see read_manifest_head().
  const OrderedJson head = {{"format", newest_format},
                            {"save", manifest.save},
                            {"sequence", manifest.sequence},
                            {"parent", manifest.parent},
                            {"step", manifest.step}};
  OrderedJson features = OrderedJson::array();
  if (!manifest.optimizers.empty()) features.push_back(optimizers_feature);
  const OrderedJson rest = {{"library", manifest.library},
                            {"required_features", features},
                            {"arithmetic", manifest.arithmetic},
                            {"ranks", manifest.ranks},
                            {"plan_hash", grouping::hexadecimal(manifest.plan_hash)},
                            {"progress", json_of(manifest.progress)},
                            {"user_values", json_of(manifest.user_values)}};
  std::string text = head.dump();
  text.pop_back();
  text += ",\n" + rest.dump().substr(1);
  text.pop_back();
  if (!manifest.optimizers.empty()) text += rows_of("optimizers", manifest.optimizers);
  text += rows_of("rank_values", manifest.rank_values);
  text += rows_of("user_tensors", manifest.user_tensors);
  text += rows_of("files", manifest.files);
  text += rows_of("slots", manifest.slots);
  text += rows_of("recipes", manifest.recipes);
  text += rows_of("rates", manifest.rates);
  text += rows_of("parameters", manifest.parameters);
  return text;
}

/// Calls body(), which dumps JSON.
template <typename Body>
std::string dumped(const Body& body) {
  try {
    return body();
  } catch (const OrderedJson::exception& error) {
    throw CheckpointError(std::string("manifest: ") + error.what());
  }
}

}  // namespace

std::string to_json(const UserValue& value) {
  return dumped([&] { return json_of(value).dump(); });
}

std::string to_json(const UserValues& values) {
  return dumped([&] { return json_of(values).dump(); });
}

std::string checksum_member(std::string_view body) {
  return ",\n\"checksum\":\"" + grouping::hexadecimal(grouping::hash(body)) + "\"}\n";
}

std::string to_json(const Manifest& manifest) {
  validate(manifest);
  std::string text = dumped([&] { return body_of(manifest); });
  text += checksum_member(text);
  if (text.size() > limits::manifest_bytes)
    throw CheckpointError("manifest: " + std::to_string(text.size()) + " bytes; at most " +
                          std::to_string(limits::manifest_bytes) + " are allowed");
  manifest_from_json(text);  // what is written can be read
  return text;
}

}  // namespace shampoo::checkpoint
