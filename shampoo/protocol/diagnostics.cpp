// SPDX-License-Identifier: Apache-2.0
#include "shampoo/protocol/diagnostics.h"

#include <array>
#include <bit>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "distributor/system/library_version.h"
#include "grouping/hash.h"
#include "grouping/number_text.h"
#include "shampoo/rates.h"
#include "shampoo/validation/option_names.h"
#include "shampoo/validation/recipe_fields.h"
#include "shampoo/validation/validate_parameters.h"

namespace shampoo {

namespace {

std::string exact(double number) { return grouping::exact_text(number); }
std::string exact(const std::optional<double>& number) {
  return number ? exact(*number) : "not set";
}

std::string options_text(const OptimizerOptions& options) {
  const auto policy = static_cast<std::size_t>(options.non_finite);
  return "options: non_finite " + std::string(OptionNames<NonFinite>::all[policy]) +
         ", skipped_in_a_row " + std::to_string(options.skipped_in_a_row) + ", merge_groups " +
         (options.merge_groups ? "true" : "false") + ", agree_before_commit " +
         (options.agree_before_commit ? "true" : "false") + ", compare_values_every " +
         std::to_string(options.compare_values_every) + ", transform_direction " +
         (options.transform_direction ? "set" : "not set") + ", learning_rate_factor " +
         (options.learning_rate_factor ? "set" : "not set") +
         "\noptions: " + canonical_text(options.gradients) + "\n";
}

/// Sums over a tensor, as its norm, follow its strides.
std::string layout_text(const Tensor& tensor, const std::vector<std::int64_t>& shape) {
  const std::string type(name_of(tensor.type));
  const auto strides = strides_of(tensor, shape);
  if (strides == strides_of({}, shape)) return type;
  return type + " with strides " + shape_text(strides);
}

}  // namespace

std::string plan_text(const kernels::Backend& backend, const OptimizerOptions& options,
                      const Engine& engine) {
  const std::span<const Group* const> groups = engine.groups();
  const grouping::Plan& plan = engine.plan();
  std::string text = "library: shampoo " + std::string(library_version()) +
                     "\narithmetic: " + backend.arithmetic() + "\n" + options_text(options);
  text += std::to_string(groups.size()) + " groups\n";
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string group = "group " + std::to_string(g) + ": ";
    text += group + "label " + groups[g]->label() + "\n";
    for (const RecipeField& field : fields_of(groups[g]->recipe()))
      text += group + "recipe." + field.name + " " + field.value + "\n";
    text += group + std::to_string(groups[g]->parameters().size()) + " parameters\n";
  }
  for (const RegisteredParameter& registered : engine.parameters()) {
    const Parameter& parameter = registered.parameter();
    text += registered.title() + ": shape " + shape_text(parameter.shape) + ", value " +
            layout_text(parameter.value, parameter.shape) + ", gradient " +
            layout_text(parameter.gradient, parameter.shape) +
            (parameter.frozen ? ", frozen\n" : "\n");
  }
  for (std::size_t v = 0; v < plan.blocks.size(); ++v) {
    std::map<std::string, std::string> owners;
    for (const grouping::Block& block : plan.blocks[v])
      owners[plan.parameter(static_cast<int>(v), block).name] += " " + std::to_string(block.owner);
    for (const auto& [name, list] : owners)
      text += "parameter '" + name + "': owners of its blocks" + list + "\n";
  }
  return text;
}

std::string rates_text(std::span<const Group* const> groups) {
  std::string text;
  for (const Group* const group : groups)
    text += rates_text(*group, group->rates, group->own_rates());
  return text;
}

std::string rates_text(const Group& group, const Rates& rates, std::span<const OwnRate> own) {
  std::string text;
  for_each_field(
      [&](const char* name, const auto& value) {
        text += group.title() + ": " + name + " " + exact(value) + "\n";
      },
      rates);
  for (const OwnRate& rate : own)
    text += group.title() + ", parameter '" + group.parameters()[rate.parameter].name +
            "': " + std::string(rate.rate) + " " + exact(rate.value) + "\n";
  return text;
}

std::string tensors_text(std::span<const RegisteredParameter> parameters,
                         std::span<const double> value_norms) {
  std::string text;
  for (const RegisteredParameter& registered : parameters)
    text +=
        registered.title() + ": its gradient is " + (registered.present ? "present\n" : "absent\n");
  for (std::size_t p = 0; p < value_norms.size(); ++p)
    text +=
        parameters[p].title() + ": its value has the squared norm " + exact(value_norms[p]) + "\n";
  return text;
}

std::uint64_t rates_hash(std::span<const Group* const> groups) {
  grouping::Hash all;
  for (const Group* const group : groups) {
    for_each_field([&](const char*, const auto& rate) { all.add(rate); }, group->rates);
    for (const OwnRate& own : group->own_rates()) {
      all.add(std::uint64_t{own.parameter});
      all.add(own.rate);
      all.add(own.value);
    }
  }
  return all.value();
}

std::uint64_t tensors_hash(std::span<const RegisteredParameter> parameters,
                           std::span<const double> value_norms) {
  grouping::Hash all;
  std::uint64_t word = 0;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    word = word << 1 | (parameters[p].present ? 1u : 0u);
    if (p % 64 == 63) all.add(std::exchange(word, 0));
  }
  all.add(word);
  for (const double norm : value_norms) all.add(std::bit_cast<std::uint64_t>(norm));
  return all.value();
}

void fail_index(const std::string& subject, const char* entry, const std::string& index,
                std::size_t count) {
  throw std::out_of_range(subject + ": there is no " + entry + " " + index + " (it has " +
                          std::to_string(count) + ", counted from 0)");
}

}  // namespace shampoo
