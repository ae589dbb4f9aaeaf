// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "grouping/number_text.h"
#include "shampoo/recipe.h"
#include "shampoo/validation/option_names.h"
#include "shampoo/validation/recipe_fields.h"

namespace shampoo {

namespace {

std::string text_of(double value) { return grouping::exact_text(value); }
std::string text_of(std::integral auto value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
/// A number where it is none of the enumerators, which recipe_from() refuses.
template <typename Enumeration>
requires std::is_enum_v<Enumeration> std::string text_of(Enumeration value) {
  const auto index = static_cast<std::size_t>(value);
  const auto& names = OptionNames<Enumeration>::all;
  return index < names.size() ? std::string(names[index]) : std::to_string(index);
}

template <typename... Kinds>
std::string text_of(const std::variant<Kinds...>& kind);
template <typename Value>
std::string text_of(const std::optional<Value>& value);
template <typename Element>
std::string text_of(const std::vector<Element>& list);
template <std::size_t count>
std::string text_of(const std::array<double, count>& list);

/// name(field=value, ...), put together by one function for the fields of all options: each has a
/// visitor of its own.
class OptionsText {
 public:
  explicit OptionsText(std::string_view name) : text_(name) {}
  void add(std::string_view field, const std::string& value) {
    text_.append(is_empty_ ? "(" : ", ").append(field).append("=").append(value);
    is_empty_ = false;
  }
  std::string take() { return is_empty_ ? text_ : text_ + ")"; }

 private:
  std::string text_;
  bool is_empty_ = true;
};

template <typename Options>
requires requires { Options::name; }
std::string text_of(const Options& options) {
  OptionsText text(Options::name);
  Options::for_each_field(
      [&](std::string_view name, const auto& value) { text.add(name, text_of(value)); }, options);
  return text.take();
}

template <typename... Kinds>
std::string text_of(const std::variant<Kinds...>& kind) {
  return std::visit([](const auto& options) { return text_of(options); }, kind);
}

template <typename Value>
std::string text_of(const std::optional<Value>& value) {
  return value ? text_of(*value) : "none";
}

template <typename Element>
std::string text_of(const std::vector<Element>& list) {
  std::string text = "[";
  for (const Element& element : list) text += (text.size() > 1 ? ", " : "") + text_of(element);
  return text + "]";
}

template <std::size_t count>
std::string text_of(const std::array<double, count>& list) {
  return text_of(std::vector<double>(list.begin(), list.end()));
}

/// What the line of a field itself says: of kinds and options the name, of a list of options how
/// many there are. Theirs have lines of their own.
template <typename Value>
std::string line_text(const Value& value) {
  return text_of(value);
}
template <typename Options>
requires requires { Options::name; }
std::string line_text(const Options&) { return std::string(Options::name); }
template <typename... Kinds>
std::string line_text(const std::variant<Kinds...>& kind) {
  return std::visit([](const auto& options) { return std::string(options.name); }, kind);
}
template <typename Value>
std::string line_text(const std::optional<Value>& value) {
  return value ? line_text(*value) : "none";
}
template <typename Element>
requires requires { Element::name; }
std::string line_text(const std::vector<Element>& list) { return text_of(list.size()); }

/// Collects the fields of a recipe with dots between the levels.
class FieldCollector {
 public:
  std::vector<RecipeFieldDefault> fields;

  /// What is below a value of this name: nothing below a number, an enumerator or a list of them.
  template <typename Value>
  void add_below(const std::string&, const Value&) {}

  /// The defaults of options are those of their struct, whatever they are a part of.
  template <typename Options>
  requires requires { Options::name; }
  void add_below(const std::string& name, const Options& options) {
    std::vector<std::string> usual;
    const Options defaults;
    Options::for_each_field(
        [&](std::string_view, const auto& value) { usual.push_back(line_text(value)); }, defaults);
    std::size_t i = 0;
    Options::for_each_field(
        [&]<typename Value>(std::string_view field, const Value& value) {
          const std::string path = path_of(name, field);
          if constexpr (!requires { Value::name; }) add(path, line_text(value), usual[i]);
          ++i;
          add_below(path, value);
        },
        options);
  }

  template <typename... Kinds>
  void add_below(const std::string& name, const std::variant<Kinds...>& kind) {
    std::visit([&](const auto& options) { add_below(name, options); }, kind);
  }

  template <typename Value>
  void add_below(const std::string& name, const std::optional<Value>& value) {
    if (value) add_below(name, *value);
  }

  /// Each under its index.
  template <typename Element>
  requires requires { Element::name; }
  void add_below(const std::string& name, const std::vector<Element>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) add_below(path_of(name, text_of(i)), list[i]);
  }

 private:
  static std::string path_of(const std::string& parent, std::string_view name) {
    return parent.empty() ? std::string(name) : parent + "." + std::string(name);
  }
  void add(const std::string& name, const std::string& value, const std::string& usual) {
    fields.push_back({name, value, usual});
  }
};

}  // namespace

std::vector<RecipeFieldDefault> fields_with_defaults(const Recipe& recipe) {
  FieldCollector collector;
  collector.add_below("", recipe);
  return std::move(collector.fields);
}

std::vector<RecipeField> fields_of(const Recipe& recipe) {
  std::vector<RecipeField> fields;
  for (RecipeFieldDefault& field : fields_with_defaults(recipe))
    fields.push_back({std::move(field.name), std::move(field.value)});
  return fields;
}

std::string canonical_text(const Recipe& recipe) { return text_of(recipe); }
std::string canonical_text(const GradientOptions& options) { return text_of(options); }

}  // namespace shampoo
