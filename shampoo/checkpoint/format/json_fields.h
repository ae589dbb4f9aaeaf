// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shampoo/checkpoint/format/dtype.h"

namespace shampoo::checkpoint {

using Json = nlohmann::json;

/// Throws CheckpointError with this message about a manifest.
[[noreturn]] void refuse(const std::string& fault);

/// Values of a type and a range; `where` names them. Throw CheckpointError.
std::int64_t number_from(const Json& json, const std::string& where,
                         std::int64_t largest = std::numeric_limits<std::int64_t>::max());
double real_from(const Json& json, const std::string& where);
std::string text_from(const Json& json, const std::string& where);
std::uint64_t hash_from(const Json& json, const std::string& where);

/// The fields of a JSON object; others than those that are asked for do not matter. Throws
/// CheckpointError that names the field.
class JsonFields {
 public:
  JsonFields(const Json& json, std::string where);

  bool has(const char* field) const { return json_.contains(field); }
  const Json& at(const char* field) const;
  std::string text(const char* field) const { return text_from(at(field), name(field)); }
  std::uint64_t hash(const char* field) const { return hash_from(at(field), name(field)); }
  std::int64_t number(const char* field) const { return number_from(at(field), name(field)); }
  double real(const char* field) const { return real_from(at(field), name(field)); }
  int small_number(const char* field) const { return number<int>(at(field), name(field)); }
  Dtype dtype() const;
  std::vector<double> reals(const char* field) const;

  std::vector<std::string> texts(const char* field) const;
  /// A list of whole numbers >= 0.
  template <typename Number = std::int64_t>
  std::vector<Number> numbers(const char* field) const {
    const Json& list = at(field);
    if (!list.is_array()) refuse(name(field) + ": must be a list");
    std::vector<Number> all;
    all.reserve(list.size());
    const std::string where = name(field);
    for (const Json& element : list) all.push_back(number<Number>(element, where));
    return all;
  }

  /// Of a type that has fewer numbers.
  template <typename Number>
  static Number number(const Json& json, const std::string& where) {
    constexpr auto largest = std::min<std::uint64_t>(std::numeric_limits<Number>::max(),
                                                     std::numeric_limits<std::int64_t>::max());
    return static_cast<Number>(number_from(json, where, static_cast<std::int64_t>(largest)));
  }

 private:
  std::string name(const std::string& field) const {
    return where_.empty() ? field : where_ + "." + field;
  }

  const Json& json_;
  std::string where_;
};

}  // namespace shampoo::checkpoint
