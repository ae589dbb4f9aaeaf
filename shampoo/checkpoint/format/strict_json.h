// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/dtype.h"

namespace shampoo::checkpoint {

using Json = nlohmann::json;

/// Parses the JSON of a manifest. Refuses what nlohmann's parser accepts: keys that occur twice,
/// and documents nested more than 8 levels deep. Throws CheckpointError.
Json parse_strictly(std::string_view text);

/// Throws CheckpointError with this message about a manifest.
[[noreturn]] void refuse(const std::string& fault);

/// Values of a type and a range; `where` names them. Throw CheckpointError.
std::int64_t number_from(const Json& json, const std::string& where,
                         std::int64_t largest = std::numeric_limits<std::int64_t>::max());
double real_from(const Json& json, const std::string& where);
std::string text_from(const Json& json, const std::string& where);
std::uint64_t hash_from(const Json& json, const std::string& where);

/// A JSON object of which every field must be asked for. Throws CheckpointError that names the
/// field.
class StrictObject {
 public:
  StrictObject(const Json& json, std::string where);

  const Json& at(const char* field);
  std::string text(const char* field) { return text_from(at(field), name(field)); }
  std::uint64_t hash(const char* field) { return hash_from(at(field), name(field)); }
  std::int64_t number(const char* field) { return number_from(at(field), name(field)); }
  double real(const char* field) { return real_from(at(field), name(field)); }
  int small_number(const char* field);
  std::vector<std::int64_t> sides(const char* field);
  Dtype dtype();

  /// convert(element, name) of every element of a list.
  template <typename Convert>
  auto each(const char* field, const Convert& convert) {
    if (!at(field).is_array()) refuse(name(field) + ": must be a list");
    std::vector<decltype(convert(json_, where_))> all;
    for (const Json& element : at(field)) all.push_back(convert(element, name(field)));
    return all;
  }

  /// A row of a table that a field names by its index.
  template <typename Row>
  const Row& row(const char* field, const std::vector<Row>& table) {
    return row_of(at(field), name(field), table);
  }
  template <typename Row>
  static const Row& row_of(const Json& index, const std::string& where,
                           const std::vector<Row>& table) {
    const std::int64_t row = number_from(index, where);
    if (row >= static_cast<std::int64_t>(table.size()))
      refuse(where + ": there is no row " + std::to_string(row));
    return table[static_cast<std::size_t>(row)];
  }

  /// Throws if there are other fields.
  void finish() const;

 private:
  std::string name(const std::string& field) const {
    return where_.empty() ? field : where_ + "." + field;
  }

  const Json& json_;
  std::string where_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace shampoo::checkpoint
