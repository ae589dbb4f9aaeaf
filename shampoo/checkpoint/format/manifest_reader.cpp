// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/manifest_checksum.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& fault) { throw CheckpointError("manifest: " + fault); }

/// A JSON object of which every field must be asked for.
class Fields {
 public:
  Fields(const Json& json, std::string where, std::size_t count)
      : json_(json), where_(std::move(where)) {
    if (!json_.is_object() || json_.size() != count)
      refuse(where_ + " must be an object of " + std::to_string(count) + " fields");
  }

  const Json& at(const char* field) const {
    const auto found = json_.find(field);
    if (found == json_.end()) refuse(where_ + " has no " + field);
    return *found;
  }

  std::string text(const char* field) const {
    if (!at(field).is_string()) refuse(where_ + ": " + field + " must be a text");
    return at(field).get<std::string>();
  }

  std::uint64_t number(const char* field, std::uint64_t most) const {
    const Json& value = at(field);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
      refuse(where_ + ": " + field + " must be a whole number from 0 to " + std::to_string(most));
    return value.get<std::uint64_t>();
  }

  std::uint64_t hash(const char* field) const {
    const auto value = from_hexadecimal(text(field));
    if (!value) refuse(where_ + ": " + field + " must be 16 hexadecimal digits");
    return *value;
  }

  const Json& list(const char* field) const {
    if (!at(field).is_array()) refuse(where_ + ": " + field + " must be a list");
    return at(field);
  }

  std::vector<std::int64_t> sides(const char* field) const {
    std::vector<std::int64_t> sides;
    for (const Json& side : list(field)) {
      if (!side.is_number_unsigned() ||
          side.get<std::uint64_t>() >
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        refuse(where_ + ": " + field + " must be whole numbers from 0 to 2^63 - 1");
      sides.push_back(side.get<std::int64_t>());
    }
    return sides;
  }

 private:
  const Json& json_;
  std::string where_;
};

ShardFile file_from(const Json& json) {
  const Fields fields(json, "a file", 3);
  return {fields.text("name"), fields.number("bytes", std::numeric_limits<std::int64_t>::max()),
          fields.hash("header_xxh3")};
}

SavedPiece piece_from(const Json& json, const std::string& tensor) {
  const Fields fields(json, "a piece of " + tensor, 5);
  return {{fields.sides("offset"), fields.sides("extent")},
          fields.text("file"),
          fields.text("key"),
          fields.hash("xxh3")};
}

SavedTensor tensor_from(const Json& json) {
  const Fields fields(json, "a tensor", 4);
  SavedTensor tensor;
  tensor.name = fields.text("name");
  const auto dtype = dtype_named(fields.text("dtype"));
  if (!dtype) refuse("tensor " + in_quotes(tensor.name) + ": unknown dtype");
  tensor.dtype = *dtype;
  tensor.shape = fields.sides("shape");
  for (const Json& piece : fields.list("pieces"))
    tensor.pieces.push_back(piece_from(piece, in_quotes(tensor.name)));
  return tensor;
}

std::map<std::string, std::string> values_from(const Json& json) {
  if (!json.is_object()) refuse("values must be an object");
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) refuse("values: " + in_quotes(key) + " must be a text");
    values.emplace(key, value.get<std::string>());
  }
  return values;
}

/// Converts tensor after tensor, so that no more than one of them is kept as JSON.
class Parse {
 public:
  Json run(std::string_view text, std::vector<SavedTensor>& tensors) {
    const auto filter = [&](int depth, Json::parse_event_t event, Json& parsed) {
      constexpr int deepest = 8;
      if (depth > deepest) refuse("nested too deeply");
      check_key(depth, event, parsed);
      if (depth == 1 && event == Json::parse_event_t::key) in_tensors_ = parsed == "tensors";
      if (!in_tensors_ || depth != 2 || event != Json::parse_event_t::object_end) return true;
      tensors.push_back(tensor_from(parsed));
      return false;
    };
    try {
      return Json::parse(text, filter);
    } catch (const Json::exception& error) {
      refuse(std::string("no JSON: ") + in_quotes(error.what()));
    }
  }

 private:
  void check_key(int depth, Json::parse_event_t event, const Json& parsed) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      keys_.resize(level + 1);
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::key) {
      if (!keys_.at(level).insert(parsed.get<std::string>()).second)
        refuse("the field " + in_quotes(parsed.get<std::string>()) + " occurs twice");
    }
  }

  std::vector<std::set<std::string>> keys_;  ///< of the objects that are open, by depth
  bool in_tensors_ = false;
};

Manifest manifest_of(const Json& json, std::vector<SavedTensor> tensors) {
  if (!json.is_object() || !json.contains("schema")) refuse("no schema");
  if (json.at("schema") != manifest_schema)
    refuse("schema " + in_quotes(json.at("schema").dump()) + "; this version reads " +
           std::to_string(manifest_schema));
  const Fields fields(json, "it", 11);
  Manifest manifest;
  manifest.save = fields.text("save");
  manifest.library_version = fields.text("library_version");
  manifest.world = static_cast<int>(fields.number("world", std::numeric_limits<int>::max()));
  manifest.step =
      static_cast<std::int64_t>(fields.number("step", std::numeric_limits<std::int64_t>::max()));
  manifest.plan_hash = fields.hash("plan_hash");
  manifest.arithmetic = fields.text("arithmetic");
  manifest.values = values_from(fields.at("values"));
  for (const Json& file : fields.list("files")) manifest.files.push_back(file_from(file));
  if (!fields.list("tensors").empty()) refuse("tensors must be a list of objects");
  fields.hash("checksum");
  manifest.tensors = std::move(tensors);
  validate(manifest);
  return manifest;
}

}  // namespace

Manifest manifest_from_json(std::string_view text) {
  require_seal(text);
  std::vector<SavedTensor> tensors;
  const Json json = Parse().run(text, tensors);
  return manifest_of(json, std::move(tensors));
}

}  // namespace shampoo::checkpoint
