// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/compare.h"

#include <map>
#include <set>

#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint/reader.h"

namespace shampoo::checkpoint::command {
namespace {

using Tensors = std::map<std::string, const SavedTensor*>;

Tensors tensors_of(const Manifest& manifest, const std::string& prefix) {
  Tensors tensors;
  for (const SavedTensor& tensor : manifest.tensors)
    if (tensor.name.starts_with(prefix)) tensors.emplace(tensor.name, &tensor);
  return tensors;
}

template <typename Map>
std::set<std::string> names_of(const Map& a, const Map& b) {
  std::set<std::string> names;
  for (const auto& [name, value] : a) names.insert(name);
  for (const auto& [name, value] : b) names.insert(name);
  return names;
}

ComparedSide side_of(const std::filesystem::path& path, const Manifest& manifest) {
  return {path, manifest.step, manifest.world, manifest.library_version, manifest.arithmetic};
}

std::uint64_t elements_of(const SavedTensor& tensor) {
  return bytes_of(tensor) * 8 / static_cast<std::uint64_t>(bits_of(tensor.dtype));
}

void compare_tensors(const Reader& a, const Reader& b, const std::string& prefix,
                     Comparison& comparison) {
  const Tensors in_a = tensors_of(a.manifest(), prefix), in_b = tensors_of(b.manifest(), prefix);
  ElementComparison elements(a, b);
  for (const std::string& name : names_of(in_a, in_b)) {
    const auto left = in_a.find(name), right = in_b.find(name);
    OtherText types{name, {}, {}};
    if (left != in_a.end()) types.in_a = type_text(*left->second);
    if (right != in_b.end()) types.in_b = type_text(*right->second);
    if (types.in_a != types.in_b) {
      comparison.tensors.push_back(types);
    } else if (auto difference = elements.compare(*left->second, *right->second)) {
      comparison.content.push_back(
          {name, *types.in_a, elements_of(*left->second), *std::move(difference)});
    } else {
      ++comparison.equal_tensors;
    }
  }
}

void compare_values(const Manifest& a, const Manifest& b, const std::string& prefix,
                    Comparison& comparison) {
  for (const std::string& key : names_of(a.values, b.values)) {
    if (!key.starts_with(prefix)) continue;
    const auto left = a.values.find(key), right = b.values.find(key);
    OtherText values{key, {}, {}};
    if (left != a.values.end()) values.in_a = left->second;
    if (right != b.values.end()) values.in_b = right->second;
    if (values.in_a != values.in_b) {
      comparison.values.push_back(values);
    } else {
      ++comparison.equal_values;
    }
  }
}

}  // namespace

bool Comparison::equal() const {
  return tensors.empty() && content.empty() && values.empty() && (!steps_count || a.step == b.step);
}

Comparison compare_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                               const std::string& prefix) {
  const Reader in_a(a), in_b(b);
  in_a.verify();
  in_b.verify();
  Comparison comparison;
  comparison.a = side_of(a, in_a.manifest());
  comparison.b = side_of(b, in_b.manifest());
  comparison.steps_count = prefix.empty();
  compare_tensors(in_a, in_b, prefix, comparison);
  compare_values(in_a.manifest(), in_b.manifest(), prefix, comparison);
  return comparison;
}

}  // namespace shampoo::checkpoint::command
