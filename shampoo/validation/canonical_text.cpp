// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <concepts>
#include <functional>
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

/// name(field=value, ...)
template <typename Options>
requires requires { Options::name; }
std::string text_of(const Options& options) {
  std::string text(Options::name);
  bool first = true;
  Options::for_each_field(
      [&](std::string_view name, const auto& value) {
        text += first ? "(" : ", ";
        text.append(name).append("=").append(text_of(value));
        first = false;
      },
      options);
  return first ? text : text + ")";
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

/// Collects the fields of a recipe with dots between the levels.
class FieldCollector {
 public:
  std::vector<RecipeFieldDefault> fields;

  /// A leaf: a number, a name, a list of numbers.
  template <typename Value>
  void add(const std::string& name, const Value& value, const Value& usual) {
    fields.push_back({name, text_of(value), text_of(usual)});
  }

  template <typename Options>
  requires requires { Options::name; }
  void add(const std::string& name, const Options& options, const Options& usual) {
    // Fields of both, one after the other.
    std::vector<std::function<void(const void*)>> visits;
    Options::for_each_field(
        [&](std::string_view field, const auto& value) {
          const std::string below = (name.empty() ? "" : name + ".") + std::string(field);
          visits.push_back([this, below, &value](const void* other) {
            add(below, value, *static_cast<decltype(&value)>(other));
          });
        },
        options);
    std::size_t next = 0;
    Options::for_each_field([&](std::string_view, const auto& value) { visits[next++](&value); },
                            usual);
  }

  template <typename... Kinds>
  void add(const std::string& name, const std::variant<Kinds...>& kind,
           const std::variant<Kinds...>& usual) {
    add_kind(name, kind, kind_name(usual), &usual);
  }

  template <typename Value>
  void add(const std::string& name, const std::optional<Value>& value,
           const std::optional<Value>& usual) {
    if constexpr (requires { kind_name(*value); }) {
      const std::string usual_name = usual ? kind_name(*usual) : "none";
      if (value)
        add_kind(name, *value, usual_name, usual ? &*usual : nullptr);
      else
        fields.push_back({name, "none", usual_name});
    } else {
      fields.push_back({name, text_of(value), text_of(usual)});
    }
  }

  /// Of options: how many there are, and each under its index.
  template <typename Element>
  requires requires { Element::name; }
  void add(const std::string& name, const std::vector<Element>& list,
           const std::vector<Element>& usual) {
    fields.push_back({name, text_of(list.size()), text_of(usual.size())});
    for (std::size_t i = 0; i < list.size(); ++i)
      add(name + "." + text_of(i), list[i], i < usual.size() ? usual[i] : Element());
  }

 private:
  template <typename... Kinds>
  static std::string kind_name(const std::variant<Kinds...>& kind) {
    return std::visit([](const auto& options) { return std::string(options.name); }, kind);
  }
  template <typename Options>
  requires requires { Options::name; }
  static std::string kind_name(const Options&) { return std::string(Options::name); }

  template <typename... Kinds>
  void add_kind(const std::string& name, const std::variant<Kinds...>& kind,
                const std::string& usual_name, const std::variant<Kinds...>* usual) {
    fields.push_back({name, kind_name(kind), usual_name});
    std::visit(
        [&]<typename Options>(const Options& options) {
          const Options* const same = usual ? std::get_if<Options>(usual) : nullptr;
          add(name, options, same ? *same : Options());
        },
        kind);
  }
  template <typename Options>
  requires requires { Options::name; }
  void add_kind(const std::string& name, const Options& options, const std::string& usual_name,
                const Options* usual) {
    fields.push_back({name, std::string(Options::name), usual_name});
    add(name, options, usual ? *usual : Options());
  }
};

}  // namespace

std::vector<RecipeFieldDefault> fields_with_defaults(const Recipe& recipe) {
  FieldCollector collector;
  collector.add("", recipe, Recipe());
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
