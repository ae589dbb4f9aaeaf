// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace shampoo::test {

using Json = nlohmann::json;

/// An object of a case, read key by key. Whatever is wrong is thrown as std::invalid_argument that
/// names where it stands; finish() throws if a key was not asked for.
class Fields {
 public:
  Fields(const Json& object, std::string where);

  bool has(const std::string& key) const { return object_->contains(key); }
  /// Throws if it is missing.
  const Json& at(const std::string& key);
  Fields object(const std::string& key);

  double number(const std::string& key);
  std::int64_t integer(const std::string& key);
  bool boolean(const std::string& key);
  std::string text(const std::string& key);

  double number_or(const std::string& key, double otherwise);
  std::int64_t integer_or(const std::string& key, std::int64_t otherwise);
  bool boolean_or(const std::string& key, bool otherwise);
  std::string text_or(const std::string& key, const std::string& otherwise);

  const Json& json() const { return *object_; }
  std::string where(const std::string& key) const { return where_ + "." + key; }
  [[noreturn]] void refuse(const std::string& key, const std::string& fault) const;
  void finish() const;

 private:
  const Json* object_;
  std::string where_;
  std::set<std::string> read_;
};

/// `value` of this key as an int. Throws outside [0, 1'000'000].
int small_integer(const Fields& fields, const std::string& key, std::int64_t value);

}  // namespace shampoo::test
