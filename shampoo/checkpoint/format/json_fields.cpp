// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/json_fields.h"

#include "grouping/number_text.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {

void refuse(const std::string& fault) { throw CheckpointError("manifest: " + fault); }

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
  const auto value = grouping::from_hexadecimal(text_from(json, where));
  if (!value) refuse(where + ": must be 16 hexadecimal digits");
  return *value;
}

JsonFields::JsonFields(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {
  if (!json_.is_object()) refuse(where_ + ": must be an object");
}

const Json& JsonFields::at(const char* field) const {
  const auto found = json_.find(field);
  if (found == json_.end()) refuse(name(field) + " is missing");
  return *found;
}

std::vector<std::string> JsonFields::texts(const char* field) const {
  const Json& list = at(field);
  if (!list.is_array()) refuse(name(field) + ": must be a list");
  std::vector<std::string> all;
  for (const Json& element : list) all.push_back(text_from(element, name(field)));
  return all;
}

std::vector<double> JsonFields::reals(const char* field) const {
  const Json& list = at(field);
  if (!list.is_array()) refuse(name(field) + ": must be a list");
  std::vector<double> all;
  for (const Json& element : list) all.push_back(real_from(element, name(field)));
  return all;
}

Dtype JsonFields::dtype() const {
  const auto dtype = dtype_named(text("dtype"));
  if (!dtype) refuse(name("dtype") + ": " + in_quotes(text("dtype")) + " is unknown");
  return *dtype;
}

}  // namespace shampoo::checkpoint
