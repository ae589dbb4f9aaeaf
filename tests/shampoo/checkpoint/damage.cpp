// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/checkpoint/damage.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::test {
namespace {

using Json = nlohmann::ordered_json;
using Place = Json::json_pointer;

/// What is no such value, and what is one but not the right one.
std::vector<Json> others(const std::string& field, const Json& value) {
  std::vector<Json> all{nullptr, Json::object(), Json::array({Json::array()}), true, 0.5, -1};
  if (value.is_number()) {
    const auto number = value.get<std::uint64_t>();
    all.insert(all.end(), {number + 1, number + 512, std::uint64_t{1} << 62, ~std::uint64_t{0},
                           std::to_string(number)});
    if (number > 0) all.push_back(number - 1);
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    std::string changed = text;
    changed.back() = changed.back() == '1' ? '2' : '1';
    all.insert(all.end(), {"", changed, text + "0", "../" + text, "/" + text, text + "/", 7});
    if (field == "dtype")
      for (const char* name : {"F64", "F32", "BF16", "I64", "BOOL"})
        if (text != name) all.push_back(name);
  }
  return all;
}

class Lies {
 public:
  explicit Lies(const std::string& manifest) : truth_(Json::parse(manifest)) {
    truth_.erase("checksum");
  }

  std::vector<Lie> run() {
    for (const char* field : {"format", "save", "step"}) about_field(Place(), field);
    for (const char* field : {"progress", "user_values", "rank_values", "user_tensors", "files",
                              "slots", "recipes", "rates", "parameters"}) {
      about_name(Place(), field);
      about_kind(Place() / field);
    }
    for (const char* list : {"/files", "/slots", "/user_tensors", "/parameters"})
      about_elements(Place(list));
    return std::move(lies_);
  }

 private:
  void add(const std::string& what, const Json& json) {
    if (json == truth_) return;
    std::string text = json.dump();
    text.pop_back();
    lies_.push_back({what, text + checkpoint::checksum_member(text)});
  }

  /// Nothing in the files tells that it is another value, if it is one at all.
  static bool is_free(const std::string& field) {
    for (const char* free : {"steps", "averaging_weight_sum", "failures", "recipe", "rates"})
      if (field == free) return true;
    return false;
  }

  void about_name(const Place& object, const std::string& field) {
    Json lie = truth_;
    const Json value = lie.at(object).at(field);
    lie.at(object).erase(field);
    add("no " + (object / field).to_string(), lie);
    lie.at(object)[field + "s"] = value;
    add("another name for " + (object / field).to_string(), lie);
  }

  void about_kind(const Place& place) {
    for (const Json& other : {Json(nullptr), Json(1), Json("x"), Json::array({1}), Json(true)}) {
      if (other.is_number() && truth_.at(place).is_number()) continue;
      Json lie = truth_;
      lie.at(place) = other;
      add(place.to_string() + " is " + other.dump(), lie);
    }
  }

  void about_field(const Place& object, const std::string& field) {
    about_name(object, field);
    const Json value = truth_.at(object).at(field);
    if (value.is_array()) {
      about_kind(object / field);
      return about_elements(object / field);
    }
    if (is_free(field)) return about_kind(object / field);
    for (const Json& other : others(field, value)) {
      Json lie = truth_;
      lie.at(object / field) = other;
      add((object / field).to_string() + " is " + other.dump(), lie);
    }
  }

  void about_elements(const Place& list) {
    for (std::size_t i = 0; i < truth_.at(list).size(); ++i) {
      Json lie = truth_;
      const Json element = lie.at(list).at(i);
      lie.at(list).push_back(element);
      if (!repeats_harmlessly(list)) add((list / i).to_string() + " twice", lie);
      lie = truth_;
      lie.at(list).erase(i);
      add("no " + (list / i).to_string(), lie);
      if (!element.is_object()) {
        about_number(list / i, element);
        continue;
      }
      for (const auto& [field, value] : element.items()) about_field(list / i, field);
    }
  }

  /// One more slot in the table, which no parameter names.
  static bool repeats_harmlessly(const Place& list) { return list == Place("/slots"); }

  void about_number(const Place& place, const Json& value) {
    for (const Json& other : others("", value)) {
      Json lie = truth_;
      lie.at(place) = other;
      add(place.to_string() + " is " + other.dump(), lie);
    }
  }

  Json truth_;
  std::vector<Lie> lies_;
};

}  // namespace

std::set<std::size_t> cuts(const std::string& whole, std::size_t json_end,
                           const std::vector<std::size_t>& boundaries) {
  std::set<std::size_t> places{7, 8, 9, whole.size() - 1};
  places.insert(boundaries.begin(), boundaries.end());
  for (std::size_t place = 0; place < whole.size(); place += 512) places.insert(place);
  for (std::size_t place = 0; place < json_end; ++place)
    if (std::string_view("{}[],:\"").find(whole[place]) != std::string_view::npos)
      places.insert({place, place + 1});
  places.erase(places.lower_bound(whole.size()), places.end());
  return places;
}

std::vector<Lie> lies_about(const std::string& manifest) { return Lies(manifest).run(); }

}  // namespace shampoo::test
