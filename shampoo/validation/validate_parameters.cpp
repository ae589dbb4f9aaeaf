// SPDX-License-Identifier: Apache-2.0
#include "shampoo/validation/validate_parameters.h"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>

#include "grouping/number_text.h"
#include "shampoo/update/strided_tiles.h"
#include "shampoo/validation/checks.h"
#include "shampoo/validation/utf8.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const std::string& group, const Parameter& parameter,
                       const std::string& what) {
  throw std::invalid_argument(group + ", parameter '" + parameter.name + "': " + what);
}

constexpr std::size_t most_name_bytes = 32 << 10;

constexpr const char* shared_elements =
    "elements of the tensor share memory; each must have its own";

bool is_empty(const Parameter& parameter) {
  return std::find(parameter.shape.begin(), parameter.shape.end(), 0) != parameter.shape.end();
}

void validate_shape(const Parameter& parameter, const std::string& group) {
  std::int64_t elements = 1;
  for (const std::int64_t side : parameter.shape) {
    if (side < 0) fail(group, parameter, "shape: sides must be >= 0, got " + std::to_string(side));
    if (side > (most_elements - 1) / elements)
      fail(group, parameter, "shape: the tensor must have less than 2^40 elements");
    elements *= std::max<std::int64_t>(side, 1);
  }
  if (!parameter.box) return;
  const Box whole{std::vector<std::int64_t>(parameter.shape.size(), 0), parameter.shape};
  if (*parameter.box != whole) fail(group, parameter, "box: only the whole tensor is supported");
}

void validate_tensor(const Parameter& parameter, const std::string& group, const Tensor& tensor,
                     const char* field) {
  const std::string name(field);
  if (tensor.type > Type::float16)
    fail(group, parameter, name + ".type: must be float64, float32, bfloat16 or float16");
  if (!tensor.strides.empty()) {
    if (tensor.strides.size() != parameter.shape.size())
      fail(group, parameter,
           name + ".strides: must have " + std::to_string(parameter.shape.size()) +
               " entries or none, got " + std::to_string(tensor.strides.size()));
    std::int64_t reach = 0;
    for (std::size_t k = 0; k < tensor.strides.size(); ++k) {
      const std::int64_t stride = tensor.strides[k], steps = parameter.shape[k] - 1;
      if (stride < 0)
        fail(group, parameter, name + ".strides: must be >= 0, got " + std::to_string(stride));
      if (steps > 0 && stride > (most_elements - 1 - reach) / steps)
        fail(group, parameter,
             name + ".strides: the tensor must reach over less than 2^40 elements");
      reach += steps > 0 ? steps * stride : 0;
    }
    if (&tensor == &parameter.value && grouping::numel(parameter.shape) > reach + 1)
      fail(group, parameter, name + ".strides: " + shared_elements);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % size_of(tensor.type) != 0)
    fail(group, parameter,
         name + ".data: must be aligned to its elements of " +
             std::to_string(size_of(tensor.type)) + " bytes");
}

bool by_address(const ByteRange& a, const ByteRange& b) { return a.first < b.first; }

const Parameter& parameter_at(std::span<const ParameterGroup> groups, int row, std::string& title) {
  for (int group = 0;; ++group) {
    const int count = static_cast<int>(groups[group].parameters.size());
    title = title_of(group, groups[group].label);
    if (row < count) return groups[group].parameters[row];
    row -= count;
  }
}

using Names = std::map<std::string_view, const Parameter*>;

/// A parameter that is not frozen stands for a frozen one of the same name.
bool is_thawed(const Parameter& parameter, const Names& trained) {
  return parameter.frozen && trained.contains(parameter.name);
}

Names trained_names(std::span<const ParameterGroup> groups) {
  Names trained;
  for (const ParameterGroup& group : groups)
    for (const Parameter& parameter : group.parameters)
      if (!parameter.frozen) trained.emplace(parameter.name, &parameter);
  return trained;
}

}  // namespace

std::vector<ByteRange> runs_of(const Tensor& tensor, std::span<const std::int64_t> shape, int row) {
  std::vector<std::int64_t> strides = tensor.strides;
  if (strides.empty()) strides = row_major_strides(shape);
  // Longest stride outermost; dimensions that continue each other are one run.
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // stride, extent
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0) return {};
    if (shape[k] > 1) dimensions.emplace_back(strides[k], shape[k]);
  }
  std::sort(dimensions.rbegin(), dimensions.rend());
  std::int64_t run = 1;
  while (!dimensions.empty() && dimensions.back().first == run) {
    run *= dimensions.back().second;
    dimensions.pop_back();
  }
  const std::uintptr_t size = size_of(tensor.type);
  const auto base = reinterpret_cast<std::uintptr_t>(tensor.data);
  std::vector<ByteRange> runs{{base, base + static_cast<std::uintptr_t>(run) * size, row}};
  for (const auto& [stride, extent] : dimensions) {
    const std::size_t count = runs.size();
    for (std::int64_t i = 1; i < extent; ++i)
      for (std::size_t r = 0; r < count; ++r) {
        const std::uintptr_t offset = static_cast<std::uintptr_t>(i * stride) * size;
        runs.push_back({runs[r].first + offset, runs[r].last + offset, row});
      }
  }
  return runs;
}

void require_distinct_gradients(const std::string& call,
                                std::span<const Parameter* const> parameters) {
  std::vector<ByteRange> runs;
  for (std::size_t j = 0; j < parameters.size(); ++j) {
    const Parameter& parameter = *parameters[j];
    if (parameter.gradient.data == nullptr) continue;
    const auto own = runs_of(parameter.gradient, parameter.shape, static_cast<int>(j));
    runs.insert(runs.end(), own.begin(), own.end());
  }
  std::sort(runs.begin(), runs.end(), by_address);
  const auto shared =
      std::adjacent_find(runs.begin(), runs.end(),
                         [](const ByteRange& a, const ByteRange& b) { return b.first < a.last; });
  if (shared == runs.end()) return;
  const std::string& name = parameters[shared->parameter]->name;
  const std::string& other = parameters[shared[1].parameter]->name;
  throw std::invalid_argument(
      call + ": parameter '" + name + "': gradient: elements of it " +
      (name == other ? "share memory" : "lie in memory of the gradient of '" + other + "'") +
      "; gradients that are scaled where they are must not");
}

ValueMemory::ValueMemory(std::span<const ParameterGroup> groups) {
  const Names trained = trained_names(groups);
  int row = -1;
  for (const ParameterGroup& group : groups)
    for (const Parameter& parameter : group.parameters) {
      ++row;
      if (is_thawed(parameter, trained)) continue;
      const auto runs = runs_of(parameter.value, parameter.shape, row);
      runs_.insert(runs_.end(), runs.begin(), runs.end());
    }
  std::sort(runs_.begin(), runs_.end(), by_address);
  for (std::size_t r = 1; r < runs_.size(); ++r) {
    if (runs_[r].first >= runs_[r - 1].last) continue;
    std::string group, other_group;
    const Parameter& other = parameter_at(groups, runs_[r - 1].parameter, other_group);
    const Parameter& parameter = parameter_at(groups, runs_[r].parameter, group);
    if (&other == &parameter)
      fail(group, parameter, std::string("value.strides: ") + shared_elements);
    fail(group, parameter,
         "value: overlaps the value of '" + other.name + "'; values must not share memory");
  }
}

const ByteRange* overlapping(std::span<const ByteRange> ranges, const Tensor& tensor,
                             std::span<const std::int64_t> shape) {
  for (const ByteRange& run : runs_of(tensor, shape, -1)) {
    const auto after = std::ranges::lower_bound(ranges, run.last, {}, &ByteRange::first);
    if (after != ranges.begin() && std::prev(after)->last > run.first) return &*std::prev(after);
  }
  return nullptr;
}

std::vector<std::int64_t> strides_of(const Tensor& tensor, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> all =
      tensor.strides.empty() ? row_major_strides(shape) : tensor.strides;
  for (std::size_t k = 0; k < all.size() && k < shape.size(); ++k)
    if (shape[k] <= 1) all[k] = 1;
  return all;
}

void validate_same_layout(const Parameter& parameter, const std::string& group,
                          const Tensor& gradient) {
  const auto strides = [&](const Tensor& tensor) { return strides_of(tensor, parameter.shape); };
  const Tensor& registered = parameter.gradient;
  if (gradient.type != registered.type)
    fail(group, parameter,
         "gradient.type: must be that of the registration, " +
             std::string(name_of(registered.type)) + ", got " +
             std::string(name_of(gradient.type)));
  if (strides(gradient) != strides(registered))
    fail(group, parameter,
         "gradient.strides: must be those of the registration, " +
             grouping::shape_text(strides(registered)) + ", got " +
             grouping::shape_text(strides(gradient)));
}

void validate_gradient(const Parameter& parameter, const std::string& group,
                       const ValueMemory& values) {
  validate_tensor(parameter, group, parameter.gradient, "gradient");
  if (parameter.gradient.data && values.overlaps(parameter.gradient, parameter.shape))
    fail(group, parameter, "gradient: overlaps the value of a parameter");
}

/// A value that is sent must come back as it was.
void validate_wire_type(const Parameter& parameter, const std::string& group,
                        const Recipe& recipe) {
  const Communication& communication = recipe.communication;
  const Type value = parameter.value.type;
  if (!communication.values) return;
  if (communication.type && size_of(*communication.type) < size_of(value))
    fail(group, parameter,
         "recipe.communication: values must be sent in a type that is not narrower than " +
             std::string(name_of(value)) + ", got " + std::string(name_of(*communication.type)));
  if (value == Type::float64 && recipe.arithmetic == Arithmetic::float32)
    fail(group, parameter,
         "recipe.communication.values: of a float64 value needs recipe.arithmetic float64, got "
         "float32");
}

/// A name occurs once, or once frozen and later thawed, with the same shape. `before`: those of the
/// parameters before this one, frozen or not.
void validate_name(const Parameter& parameter, const std::string& group, const Names& trained,
                   Names& before) {
  if (parameter.name.empty()) fail(group, parameter, "name: must not be empty");
  // A checkpoint has texts of at most 64 KiB, which are names with more around them.
  if (parameter.name.size() > most_name_bytes)
    fail(group, parameter,
         "name: must have at most 32768 bytes, got " + std::to_string(parameter.name.size()));
  if (!is_utf8(parameter.name)) fail(group, parameter, "name: must be UTF-8");
  const auto same = trained.find(parameter.name);
  const auto [first, is_new] = before.emplace(parameter.name, &parameter);
  if (!is_new && (parameter.frozen || !first->second->frozen))
    fail(group, parameter, "name: must be unique among all parameters");
  first->second = &parameter;
  if (parameter.frozen && same != trained.end() && same->second->shape != parameter.shape)
    fail(group, parameter,
         "shape: must be that of the parameter that thaws it, " +
             grouping::shape_text(same->second->shape) + ", got " +
             grouping::shape_text(parameter.shape));
}

void validate_requested_recipe(const Parameter& parameter, const std::string& group,
                               const Recipe& recipe) {
  if (parameter.frozen || !parameter.recipe || *parameter.recipe == recipe) return;
  const std::vector<RecipeField> wanted = fields_of(*parameter.recipe), given = fields_of(recipe);
  const auto differing = std::ranges::find_if(wanted, [&](const RecipeField& field) {
    return std::ranges::find(given, field) == given.end();
  });
  const RecipeField& field = differing == wanted.end() ? wanted.front() : *differing;
  const auto here = std::ranges::find(given, field.name, &RecipeField::name);
  fail(group, parameter,
       "recipe: the parameter asks for another than its group's: " + field.name + " " +
           field.value + ", the group has " + (here == given.end() ? "none" : here->value) +
           "; Routes gives it a group of its own");
}

ValueMemory validate_parameters(std::span<const ParameterGroup> groups) {
  const Names trained = trained_names(groups);
  Names before;
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
    const std::string title = title_of(g, groups[g].label);
    if (groups[g].parameters.empty())
      throw std::invalid_argument(title + ": parameters: must have at least one entry");
    for (const Parameter& parameter : groups[g].parameters) {
      validate_name(parameter, title, trained, before);
      validate_shape(parameter, title);
      validate_tensor(parameter, title, parameter.value, "value");
      validate_wire_type(parameter, title, groups[g].recipe);
      validate_requested_recipe(parameter, title, groups[g].recipe);
      if (!parameter.value.data && !is_empty(parameter))
        fail(title, parameter, "value: the pointer must not be null");
    }
  }
  ValueMemory values(groups);
  for (int g = 0; g < static_cast<int>(groups.size()); ++g)
    for (const Parameter& parameter : groups[g].parameters)
      validate_gradient(parameter, title_of(g, groups[g].label), values);
  return values;
}

}  // namespace shampoo
