// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

// Keeps the order of the fields.
using OrderedJson = nlohmann::ordered_json;

/// Rows that many refer to by their index, each there once.
class Table {
 public:
  std::size_t index_of(const OrderedJson& row) {
    const auto [known, is_new] = known_.emplace(row.dump(), rows_.size());
    if (is_new) rows_.push_back(known->first);
    return known->second;
  }
  const std::vector<std::string>& rows() const { return rows_; }

 private:
  std::map<std::string, std::size_t> known_;
  std::vector<std::string> rows_;
};

std::string lines(const std::vector<std::string>& rows) {
  std::string text = "[";
  for (const std::string& row : rows) text += (text.size() > 1 ? ",\n" : "\n") + row;
  return text + "]";
}

OrderedJson json_of(const UserValue& value) {
  const auto* const number = std::get_if<double>(&value);
  if (!number || std::isfinite(*number))
    return std::visit([](const auto& known) { return OrderedJson(known); }, value);
  return {{"float", std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf"}};
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

OrderedJson json_of(const std::vector<RecipeField>& recipe) {
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
          {"header_xxh3", hexadecimal(file.header_checksum)}};
}

OrderedJson json_of(const SavedBlock& block) {
  OrderedJson checksums = OrderedJson::array();
  for (const std::uint64_t checksum : block.checksums) checksums.push_back(hexadecimal(checksum));
  return {{"offset", block.state.box.offset},
          {"extent", block.state.box.extent},
          {"failures", block.state.failures},
          {"phase", block.state.phase},
          {"file", block.file},
          {"xxh3", std::move(checksums)}};
}

OrderedJson json_of(const SavedUserTensor& tensor) {
  return {{"name", tensor.name},
          {"dtype", name_of(tensor.dtype)},
          {"shape", tensor.shape},
          {"file", tensor.file},
          {"xxh3", hexadecimal(tensor.checksum)}};
}

template <typename Parts>
std::vector<std::string> rows_of(const Parts& parts) {
  std::vector<std::string> rows;
  for (const auto& part : parts) rows.push_back(json_of(part).dump());
  return rows;
}

/// Without the braces around it, for more members to follow.
std::string members(const OrderedJson& object) {
  const std::string text = object.dump();
  return text.substr(1, text.size() - 2);
}

class Writer {
 public:
  std::string body_of(const Manifest& manifest) {
    std::vector<std::string> parameters;
    for (const SavedParameter& parameter : manifest.parameters)
      parameters.push_back(text_of(parameter));
    OrderedJson values = OrderedJson::object();
    for (const auto& [name, value] : manifest.user_values) values[name] = json_of(value);
    const Progress& progress = manifest.progress;
    // The first line: see read_manifest_head().
    const OrderedJson head = {{"schema", manifest_schema},
                              {"save", manifest.save},
                              {"sequence", manifest.sequence},
                              {"parent", manifest.parent},
                              {"step", manifest.step}};
    const OrderedJson rest = {{"library", manifest.library},
                              {"arithmetic", manifest.arithmetic},
                              {"ranks", manifest.ranks},
                              {"plan_hash", hexadecimal(manifest.plan_hash)},
                              {"progress",
                               {{"attempts", progress.attempts},
                                {"taken", progress.taken},
                                {"skipped_in_a_row", progress.skipped_in_a_row}}},
                              {"user_values", std::move(values)}};
    return "{" + members(head) + ",\n" + members(rest) +
           ",\n\"user_tensors\":" + lines(rows_of(manifest.user_tensors)) +
           ",\n\"files\":" + lines(rows_of(manifest.files)) +
           ",\n\"slots\":" + lines(slots_.rows()) + ",\n\"recipes\":" + lines(recipes_.rows()) +
           ",\n\"rates\":" + lines(rates_.rows()) + ",\n\"parameters\":" + lines(parameters);
  }

 private:
  std::string text_of(const SavedParameter& parameter) {
    OrderedJson slots = OrderedJson::array();
    for (const SavedSlot& slot : parameter.slots) slots.push_back(slots_.index_of(json_of(slot)));
    const OrderedJson head = {{"name", parameter.state.name},
                              {"shape", parameter.state.shape},
                              {"merged_shape", parameter.merged_shape},
                              {"steps", parameter.state.steps},
                              {"averaging_weight_sum", parameter.state.averaging_weight_sum},
                              {"recipe", recipes_.index_of(json_of(parameter.state.recipe))},
                              {"rates", rates_.index_of(json_of(parameter.state.rates))},
                              {"slots", std::move(slots)}};
    return "{" + members(head) + ",\"blocks\":" + lines(rows_of(parameter.blocks)) + "}";
  }

  Table slots_, recipes_, rates_;
};

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

std::string checksum_member(std::string_view body) {
  return ",\n\"checksum\":\"" + hexadecimal(checksum(body)) + "\"}\n";
}

std::string to_json(const Manifest& manifest) {
  validate(manifest);
  std::string text = dumped([&] { return Writer().body_of(manifest); });
  text += checksum_member(text);
  if (text.size() > most_manifest_bytes)
    throw CheckpointError("manifest: " + std::to_string(text.size()) + " bytes; at most " +
                          std::to_string(most_manifest_bytes) + " are allowed");
  return text;
}

}  // namespace shampoo::checkpoint
