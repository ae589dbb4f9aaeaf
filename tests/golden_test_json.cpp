// SPDX-License-Identifier: Apache-2.0
#include "tests/golden_test_json.h"

#include <stdexcept>
#include <utility>

namespace shampoo::test {

Fields::Fields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) throw std::invalid_argument(where_ + ": must be an object");
}

void Fields::refuse(const std::string& key, const std::string& fault) const {
  throw std::invalid_argument(where(key) + ": " + fault);
}

const Json& Fields::at(const std::string& key) {
  if (!has(key)) refuse(key, "missing");
  read_.insert(key);
  return object_->at(key);
}

Fields Fields::object(const std::string& key) { return {at(key), where(key)}; }

double Fields::number(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_number()) refuse(key, "must be a number, got " + value.dump());
  return value.get<double>();
}

std::int64_t Fields::integer(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_number_integer()) refuse(key, "must be an integer, got " + value.dump());
  return value.get<std::int64_t>();
}

bool Fields::boolean(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_boolean()) refuse(key, "must be true or false, got " + value.dump());
  return value.get<bool>();
}

std::string Fields::text(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_string()) refuse(key, "must be a string, got " + value.dump());
  return value.get<std::string>();
}

double Fields::number_or(const std::string& key, double otherwise) {
  return has(key) ? number(key) : otherwise;
}

std::int64_t Fields::integer_or(const std::string& key, std::int64_t otherwise) {
  return has(key) ? integer(key) : otherwise;
}

bool Fields::boolean_or(const std::string& key, bool otherwise) {
  return has(key) ? boolean(key) : otherwise;
}

std::string Fields::text_or(const std::string& key, const std::string& otherwise) {
  return has(key) ? text(key) : otherwise;
}

void Fields::finish() const {
  for (const auto& [key, value] : object_->items())
    if (!read_.contains(key)) refuse(key, "unknown key, with the value " + value.dump());
}

int small_integer(const Fields& fields, const std::string& key, std::int64_t value) {
  if (value < 0 || value > 1'000'000) fields.refuse(key, "out of range: " + std::to_string(value));
  return static_cast<int>(value);
}

}  // namespace shampoo::test
