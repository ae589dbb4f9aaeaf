// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/strict_json.h"

#include <utility>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

/// The keys of the objects that are open.
class OpenKeys {
 public:
  void check(int depth, Json::parse_event_t event, const Json& parsed) {
    constexpr int deepest = 8;
    if (depth > deepest) refuse("nested too deeply");
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      keys_.resize(level + 1);
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!keys_.at(level).insert(name).second)
        refuse("the field " + in_quotes(name) + " occurs twice");
    }
  }

 private:
  std::vector<std::set<std::string>> keys_;  ///< by depth
};

}  // namespace

void refuse(const std::string& fault) { throw CheckpointError("manifest: " + fault); }

Json parse_strictly(std::string_view text) {
  OpenKeys keys;
  try {
    return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
      keys.check(depth, event, parsed);
      return true;
    });
  } catch (const Json::exception& error) {
    refuse(std::string("no JSON: ") + in_quotes(error.what()));
  }
}

std::int64_t number_from(const Json& json, const std::string& where, std::int64_t largest) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > static_cast<std::uint64_t>(largest))
    refuse(where + ": must be a whole number from 0 to " + std::to_string(largest));
  return json.get<std::int64_t>();
}

double real_from(const Json& json, const std::string& where) {
  if (!json.is_number()) refuse(where + ": must be a number");
  return json.get<double>();
}

std::string text_from(const Json& json, const std::string& where) {
  if (!json.is_string()) refuse(where + ": must be a string");
  return json.get<std::string>();
}

std::uint64_t hash_from(const Json& json, const std::string& where) {
  const auto value = from_hexadecimal(text_from(json, where));
  if (!value) refuse(where + ": must be 16 hexadecimal digits");
  return *value;
}

StrictObject::StrictObject(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {
  if (!json_.is_object()) refuse(where_ + ": must be an object");
}

const Json& StrictObject::at(const char* field) {
  const auto found = json_.find(field);
  if (found == json_.end()) refuse(name(field) + " is missing");
  asked_.insert(field);
  return *found;
}

int StrictObject::small_number(const char* field) {
  return static_cast<int>(number_from(at(field), name(field), std::numeric_limits<int>::max()));
}

std::vector<std::int64_t> StrictObject::sides(const char* field) {
  return each(field,
              [](const Json& side, const std::string& where) { return number_from(side, where); });
}

Dtype StrictObject::dtype() {
  const auto dtype = dtype_named(text("dtype"));
  if (!dtype) refuse(name("dtype") + ": " + in_quotes(text("dtype")) + " is unknown");
  return *dtype;
}

void StrictObject::finish() const {
  for (const auto& [field, value] : json_.items())
    if (!asked_.contains(field)) refuse(name(in_quotes(field)) + " is unknown");
}

}  // namespace shampoo::checkpoint
