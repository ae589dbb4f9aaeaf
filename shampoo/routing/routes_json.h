// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/routes.h"

namespace shampoo {

/// The JSON of Routes::to_json() and from_json().
class RoutesJson {
 public:
  static std::string write(const Routes& routes);
  static Routes read(std::string_view text);

 private:
  using Json = nlohmann::ordered_json;

  static Json json_of(const Routes::Rule& rule, const std::string& where);

  void read_rule(const Json& json, const std::string& where, Routes& routes);
  Match read_match(const Json& json, const std::string& where);
  Route read_route(const Json& json, const std::string& where);
  void read_recipe_and_rates(const Json& json, const std::string& where, Route& route);
  void read_rates(const Json& json, const std::string& where, Rates& rates);

  /// The member, if it is there; its absence is no fault.
  static const Json* find(const Json& json, const char* field);
  bool is_object(const Json& json, const std::string& where, std::vector<std::string_view> fields);
  template <typename Value>
  void read_member(const Json& json, const char* field, const std::string& where, Value& value);
  void fail(const std::string& where, const std::string& range, const Json& found);

  std::vector<std::string> faults_;
};

}  // namespace shampoo
