// SPDX-License-Identifier: Apache-2.0
#include "shampoo/validation/recipe_reader.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "grouping/joined.h"
#include "shampoo/validation/option_names.h"

namespace shampoo {

namespace {

template <typename Number>
requires std::integral<Number> || std::floating_point<Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}
bool parse(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}
template <typename Enumeration>
requires std::is_enum_v<Enumeration>
bool parse(std::string_view text, Enumeration& value) {
  const auto& names = OptionNames<Enumeration>::all;
  const auto found = std::ranges::find(names, text);
  value = static_cast<Enumeration>(found - names.begin());
  return found != names.end();
}

/// "[1, 2]"
template <typename Number>
bool parse(std::string_view text, std::vector<Number>& list) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  while (text.find_first_not_of(' ') != text.npos) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::size_t first = std::min(text.find_first_not_of(' '), end);
    const std::size_t last = text.substr(0, end).find_last_not_of(' ');
    if (last == text.npos || !parse(text.substr(first, last + 1 - first), list.emplace_back()))
      return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}
template <std::size_t count>
bool parse(std::string_view text, std::array<double, count>& list) {
  std::vector<double> numbers;
  if (!parse(text, numbers) || numbers.size() != count) return false;
  std::ranges::copy(numbers, list.begin());
  return true;
}

std::string accepted(const double&) { return "a number"; }
std::string accepted(const bool&) { return "true or false"; }
template <std::integral Number>
std::string accepted(const Number&) {
  return "a whole number in [" + std::to_string(std::numeric_limits<Number>::min()) + ", " +
         std::to_string(std::numeric_limits<Number>::max()) + "]";
}
template <typename Enumeration>
requires std::is_enum_v<Enumeration> std::string accepted(const Enumeration&) {
  return "one of " + grouping::joined(OptionNames<Enumeration>::all, ", ");
}
template <typename Number>
std::string accepted(const std::vector<Number>&) {
  return "a list of numbers";
}
template <std::size_t count>
std::string accepted(const std::array<double, count>&) {
  return "a list of " + std::to_string(count) + " numbers";
}

template <typename Value>
concept OptionStruct = requires {
  Value::name;
};
template <typename Value>
inline constexpr bool is_kind = OptionStruct<Value>;
template <typename... Kinds>
inline constexpr bool is_kind<std::variant<Kinds...>> = true;

/// Reads each field into the place that has its name, by the same visits that fields_of() makes.
class RecipeReader {
 public:
  RecipeReader(std::span<const RecipeField> fields, std::vector<std::string>& faults)
      : faults_(faults) {
    for (const RecipeField& field : fields)
      if (!texts_.emplace(field.name, field.value).second)
        faults_.push_back("recipe." + field.name + ": is there twice");
  }

  template <OptionStruct Options>
  void read(const std::string& path, Options& options) {
    // A canonical text has the name here.
    if (const auto text = texts_.find(path); text != texts_.end() && text->second == Options::name)
      known_.insert(path);
    Options::for_each_field(
        [&](std::string_view field, auto& value) {
          read((path.empty() ? "" : path + ".") + std::string(field), value);
        },
        options);
  }

  template <typename... Kinds>
  void read(const std::string& path, std::variant<Kinds...>& kind) {
    if (const std::string* const text = find(path)) choose(path, *text, kind, "one of ");
    read_below(path, kind);
  }

  template <typename Value>
  void read(const std::string& path, std::optional<Value>& value) {
    const std::string* const text = find(path);
    if (text && *text == "none") return value.reset();
    if constexpr (is_kind<Value>) {
      if (text) choose(path, *text, value ? *value : value.emplace(), "none, ");
      if (value) read_below(path, *value);
    } else if (text) {
      set(path, *text, value.emplace(), "none or ");
    }
  }

  /// Of options: how many there are, and each under its index.
  template <OptionStruct Element>
  void read(const std::string& path, std::vector<Element>& list) {
    std::size_t count = list.size();
    if (const std::string* const text = find(path))
      if (!parse(*text, count) || count > texts_.size()) {
        fail(path, "a count of elements with fields", *text);
        count = 0;
      }
    list.resize(count);
    for (std::size_t i = 0; i < count; ++i) read(path + "." + std::to_string(i), list[i]);
  }

  template <typename Value>
  void read(const std::string& path, Value& value) {
    if (const std::string* const text = find(path)) set(path, *text, value, "");
  }

  /// What no visit has asked for.
  void finish() {
    for (const auto& [name, text] : texts_) {
      if (known_.contains(name)) continue;
      std::string parent = name, fields;
      while (fields.empty()) {
        parent.resize(parent.find_last_of('.') == parent.npos ? 0 : parent.find_last_of('.'));
        for (const std::string& known : known_)
          if (parent.empty() || known.starts_with(parent + "."))
            fields += (fields.empty() ? "" : ", ") + known;
      }
      faults_.push_back("recipe." + name + ": there is no such field; there are " + fields);
    }
  }

 private:
  const std::string* find(const std::string& path) {
    known_.insert(path);
    const auto found = texts_.find(path);
    return found == texts_.end() ? nullptr : &found->second;
  }

  void fail(const std::string& path, const std::string& range, const std::string& text) {
    faults_.push_back("recipe." + path + ": must be " + range + ", got '" + text + "'");
  }

  template <typename Value>
  void set(const std::string& path, const std::string& text, Value& value, const char* others) {
    Value parsed{};
    if (!parse(text, parsed)) return fail(path, others + accepted(value), text);
    value = std::move(parsed);
  }

  /// Makes it the kind of this name, unless it is.
  template <typename... Kinds>
  void choose(const std::string& path, const std::string& text, std::variant<Kinds...>& kind,
              const std::string& others) {
    const auto is = [&]<typename Kind>(const Kind*) {
      if (text != Kind::name) return false;
      if (!std::holds_alternative<Kind>(kind)) kind = Kind{};
      return true;
    };
    constexpr std::array<std::string_view, sizeof...(Kinds)> names{Kinds::name...};
    if (!(is(static_cast<const Kinds*>(nullptr)) || ...))
      fail(path, others + grouping::joined(names, ", "), text);
  }
  template <OptionStruct Options>
  void choose(const std::string& path, const std::string& text, Options&,
              const std::string& others) {
    if (text != Options::name) fail(path, others + std::string(Options::name), text);
  }

  template <typename... Kinds>
  void read_below(const std::string& path, std::variant<Kinds...>& kind) {
    std::visit([&](auto& options) { read(path, options); }, kind);
  }
  template <OptionStruct Options>
  void read_below(const std::string& path, Options& options) {
    read(path, options);
  }

  std::map<std::string, std::string> texts_;
  std::set<std::string> known_;
  std::vector<std::string>& faults_;
};

}  // namespace

Recipe read_recipe(std::span<const RecipeField> fields, const Recipe& base,
                   std::vector<std::string>& faults) {
  Recipe recipe = base;
  RecipeReader reader(fields, faults);
  reader.read("", recipe);
  reader.finish();
  return recipe;
}

Recipe recipe_from(std::span<const RecipeField> fields, const Recipe& base) {
  std::vector<std::string> faults;
  Recipe recipe = read_recipe(fields, base, faults);
  if (!faults.empty()) throw std::invalid_argument(grouping::joined(faults, "\n"));
  return recipe;
}

}  // namespace shampoo
