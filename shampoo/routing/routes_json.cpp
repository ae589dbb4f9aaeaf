// SPDX-License-Identifier: Apache-2.0
#include "shampoo/routing/routes_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <type_traits>

#include "grouping/joined.h"
#include "shampoo/routing/recipe_names.h"
#include "shampoo/validation/recipe_reader.h"

namespace shampoo {

namespace {

using Json = nlohmann::ordered_json;

/// Numbers, lists and truths as themselves, names as strings.
Json json_of(const Recipe& recipe) {
  Json json = Json::object();
  for (const RecipeField& field : fields_of(recipe)) {
    const Json value = Json::parse(std::string_view(field.value), nullptr, false);
    json[field.name] = value.is_discarded() ? Json(field.value) : value;
  }
  return json;
}

Json json_of(const Rates& rates, const std::string& where) {
  Json json;
  for_each_field(
      [&](const char* name, const auto& rate) {
        const std::optional<double> number = rate;
        if (number && !std::isfinite(*number))
          throw std::invalid_argument(where + ".rates." + name + ": must be finite to be written");
        json[name] = number ? Json(*number) : Json();
      },
      rates);
  return json;
}

void add_route(Json& json, const Route& route, const std::string& where) {
  json["recipe"] = json_of(route.recipe);
  json["rates"] = json_of(route.rates, where);
  json["label"] = route.label;
  json["frozen"] = route.frozen;
}

template <typename Value>
bool is_a(const Json& json) {
  if constexpr (std::is_same_v<Value, bool>)
    return json.is_boolean();
  else if constexpr (std::is_same_v<Value, std::string>)
    return json.is_string();
  else if constexpr (std::is_integral_v<Value>)
    return json.is_number_unsigned() &&
           json.get<std::uint64_t>() <=
               static_cast<std::uint64_t>(std::numeric_limits<Value>::max());
  else
    return json.is_array() && std::ranges::all_of(json, is_a<typename Value::value_type>);
}

template <typename Value>
std::string accepted() {
  if constexpr (std::is_same_v<Value, bool>)
    return "true or false";
  else if constexpr (std::is_same_v<Value, std::string>)
    return "a string";
  else if constexpr (std::is_same_v<Value, std::vector<std::string>>)
    return "a list of strings";
  else
    return "a list of whole numbers >= 0";
}

constexpr int deepest = 16;  // levels of nested lists and objects

/// Parses; a key that an object has twice is a fault.
Json parsed(std::string_view text, std::vector<std::string>& faults) {
  // The parser takes it for the end of the text.
  if (const std::size_t at = text.find('\0'); at != text.npos)
    throw std::invalid_argument("routes: no JSON: a NUL byte at byte " + std::to_string(at));
  std::vector<std::set<std::string>> keys;
  const auto look = [&](int depth, Json::parse_event_t event, const Json& part) {
    if (depth > deepest)
      throw std::invalid_argument("routes: no JSON: it is nested deeper than " +
                                  std::to_string(deepest) + " levels");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(part.get<std::string>()).second)
      faults.push_back(part.dump() + " is there twice in one object");
    return true;
  };
  try {
    return Json::parse(text, look);
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception...] parse error at line ..."
    throw std::invalid_argument("routes: no JSON: " + what.substr(what.find("] ") + 2));
  }
}

}  // namespace

Json RoutesJson::json_of(const Routes::Rule& rule, const std::string& where) {
  if (rule.match.predicate)
    throw std::invalid_argument(where + ".match.predicate: a function cannot be written");
  if (rule.choice) throw std::invalid_argument(where + ": a choice, a function, cannot be written");
  Json match = Json::object();
  if (!rule.match.names.empty()) match["names"] = rule.match.names;
  if (!rule.match.pattern.empty()) match["pattern"] = rule.match.pattern;
  if (rule.match.shape) match["shape"] = *rule.match.shape;
  if (!rule.match.orders.empty()) match["orders"] = rule.match.orders;
  Json json = {{"match", match}};
  add_route(json, rule.route, where);
  return json;
}

std::string RoutesJson::write(const Routes& routes) {
  Json rules = Json::array();
  for (std::size_t r = 0; r < routes.rules_.size(); ++r)
    rules.push_back(json_of(routes.rules_[r], "rules[" + std::to_string(r) + "]"));
  Json json = {{"rules", rules}};
  if (routes.otherwise_) {
    json["otherwise"] = Json::object();
    add_route(json["otherwise"], *routes.otherwise_, "otherwise");
  }
  json["accept"] = {{"overlaps", routes.options_.overlaps},
                    {"unused", routes.options_.unused},
                    {"unmatched", routes.options_.unmatched}};
  try {
    return json.dump(1) + "\n";
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("routes: cannot be written: ") + error.what());
  }
}

Routes RoutesJson::read(std::string_view text) {
  RoutesJson reader;
  const Json json = parsed(text, reader.faults_);
  Routes routes;
  if (reader.is_object(json, "routes", {"rules", "otherwise", "accept"})) {
    if (const Json* const accept = find(json, "accept");
        accept && reader.is_object(*accept, "accept", {"overlaps", "unused", "unmatched"})) {
      reader.read_member(*accept, "overlaps", "accept", routes.options_.overlaps);
      reader.read_member(*accept, "unused", "accept", routes.options_.unused);
      reader.read_member(*accept, "unmatched", "accept", routes.options_.unmatched);
    }
    const Json none = Json::array();
    const Json* const listed = find(json, "rules");
    const Json& rules = listed ? *listed : none;
    if (!rules.is_array()) reader.fail("rules", "a list", rules);
    for (std::size_t r = 0; rules.is_array() && r < rules.size(); ++r)
      reader.read_rule(rules[r], "rules[" + std::to_string(r) + "]", routes);
    if (const Json* const rest = find(json, "otherwise");
        rest && reader.is_object(*rest, "otherwise", {"recipe", "rates", "label", "frozen"}))
      routes.otherwise(reader.read_route(*rest, "otherwise"));
  }
  std::string faults;
  for (const std::string& fault : reader.faults_) faults += "\n" + fault;
  if (!faults.empty()) throw std::invalid_argument("routes:" + faults);
  return routes;
}

void RoutesJson::read_rule(const Json& json, const std::string& where, Routes& routes) {
  if (!is_object(json, where, {"match", "recipe", "rates", "label", "frozen"})) return;
  const Json none = Json::object();
  const Json* const match = find(json, "match");
  const std::size_t before = faults_.size();
  Routes::Rule rule{
      read_match(match ? *match : none, where + ".match"), read_route(json, where), {}};
  if (faults_.size() > before) return;
  try {
    routes.add_rule(std::move(rule));
  } catch (const std::invalid_argument& error) {
    faults_.push_back(where + ": " + error.what());
  }
}

Match RoutesJson::read_match(const Json& json, const std::string& where) {
  Match match;
  if (!is_object(json, where, {"names", "pattern", "shape", "orders"})) return match;
  read_member(json, "names", where, match.names);
  read_member(json, "pattern", where, match.pattern);
  read_member(json, "orders", where, match.orders);
  if (find(json, "shape")) read_member(json, "shape", where, match.shape.emplace());
  return match;
}

Route RoutesJson::read_route(const Json& json, const std::string& where) {
  Route route;
  read_recipe_and_rates(json, where, route);
  read_member(json, "label", where, route.label);
  read_member(json, "frozen", where, route.frozen);
  return route;
}

void RoutesJson::read_recipe_and_rates(const Json& json, const std::string& where, Route& route) {
  std::string name;
  std::vector<RecipeField> fields;
  if (const Json* const recipe = find(json, "recipe")) {
    if (recipe->is_string())
      name = recipe->get<std::string>();
    else if (!recipe->is_object())
      fail(where + ".recipe", "the name of a recipe or an object", *recipe);
    const Json none = Json::object();
    for (const auto& [key, value] : (recipe->is_object() ? *recipe : none).items())
      if (value.is_object() || value.is_null())
        fail(where + ".recipe." + key, "a string, a number, a list, true or false", value);
      else if (key == "name" && value.is_string())
        name = value.get<std::string>();
      else
        fields.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  if (!name.empty()) {
    if (const std::optional<Route> found = recipe_named(name))
      route = *found;
    else
      fail(where + ".recipe", "one of " + recipe_names_text(), Json(name));
  }
  std::vector<std::string> faults;
  route.recipe = read_recipe(fields, route.recipe, faults);
  for (const std::string& fault : faults) faults_.push_back(where + "." + fault);
  if (const Json* const rates = find(json, "rates"))
    read_rates(*rates, where + ".rates", route.rates);
}

void RoutesJson::read_rates(const Json& json, const std::string& where, Rates& rates) {
  std::vector<std::string_view> names;
  for_each_field([&](std::string_view name, const auto&) { names.push_back(name); }, rates);
  if (!is_object(json, where, names)) return;
  for_each_field(
      [&](const char* name, auto& rate) {
        const Json* const value = find(json, name);
        if (!value) return;
        constexpr bool can_be_unset = !std::is_same_v<decltype(rate), double&>;
        if (value->is_number())
          rate = value->get<double>();
        else if (!can_be_unset || !value->is_null())
          fail(where + "." + name, can_be_unset ? "a number or null" : "a number", *value);
        else
          rate = {};
      },
      rates);
}

const RoutesJson::Json* RoutesJson::find(const Json& json, const char* field) {
  const auto found = json.find(field);
  return found == json.end() ? nullptr : &*found;
}

bool RoutesJson::is_object(const Json& json, const std::string& where,
                           std::vector<std::string_view> fields) {
  if (!json.is_object()) {
    fail(where, "an object", json);
    return false;
  }
  for (const auto& [field, value] : json.items())
    if (std::ranges::find(fields, field) == fields.end())
      faults_.push_back(where + "." + field + ": there is no such field; there are " +
                        grouping::joined(fields, ", "));
  return true;
}

template <typename Value>
void RoutesJson::read_member(const Json& json, const char* field, const std::string& where,
                             Value& value) {
  const Json* const found = find(json, field);
  if (!found) return;
  if (is_a<Value>(*found))
    value = found->template get<Value>();
  else
    fail(where + "." + field, accepted<Value>(), *found);
}

void RoutesJson::fail(const std::string& where, const std::string& range, const Json& found) {
  std::string text = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  faults_.push_back(where + ": must be " + range + ", got " + text);
}

std::string Routes::to_json() const { return RoutesJson::write(*this); }
Routes Routes::from_json(std::string_view json) { return RoutesJson::read(json); }

}  // namespace shampoo
