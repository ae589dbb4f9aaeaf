// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/read_user_state.h"

#include <set>
#include <stdexcept>

#include "shampoo/checkpoint/shard.h"
#include "shampoo/checkpoint/user_state_text.h"
#include "shampoo/checkpoint_error.h"
#include "shampoo/protocol/diagnostics.h"

namespace shampoo::checkpoint {
namespace {

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw std::invalid_argument("extra '" + name + "': " + what);
}

std::string full_name(const std::string& name) { return std::string(extra_prefix) + name; }

constexpr const char* kinds[] = {"an integer", "a number", "a text"};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

}  // namespace

ExtrasLoad::ExtrasLoad(const StateReader& state, const Manifest& manifest, const Extras& extras,
                       bool strict) {
  validate_extras(extras);
  for (std::size_t t = 0; t < extras.tensors.size(); ++t) read_tensor(state, extras.tensors[t], t);
  for (const auto& [name, now] : extras.values) read_value(manifest, name, now);
  find_unexpected(manifest, extras);
  if (!strict || (missing_.empty() && unexpected_.empty())) return;
  std::string text = "checkpoint: extras: ";
  if (!missing_.empty()) text += "missing " + listed(missing_);
  if (!unexpected_.empty())
    text += (missing_.empty() ? "not asked for " : "; not asked for ") + listed(unexpected_);
  throw std::invalid_argument(text + "; LoadOptions::strict = false accepts that");
}

void ExtrasLoad::read_tensor(const StateReader& state, const ExtraTensor& extra,
                             std::size_t index) {
  const SavedTensor* const saved = state.find(full_name(extra.name));
  if (!saved) {
    missing_.push_back(extra.name);
    return;
  }
  if (saved->shape != extra.shape)
    fail(extra.name, "shape: the checkpoint has " + shape_text(saved->shape) + ", not " +
                         shape_text(extra.shape));
  if (saved->dtype != extra.tensor.dtype)
    fail(extra.name, "tensor.dtype: the checkpoint has " + std::string(name_of(saved->dtype)) +
                         ", not " + std::string(name_of(extra.tensor.dtype)));
  std::vector<std::byte>& bytes = bytes_[index];
  bytes.resize(static_cast<std::size_t>(bytes_of(extra)));
  state.read_whole(*saved, bytes);
}

void ExtrasLoad::read_value(const Manifest& manifest, const std::string& name,
                            const ExtraValue& now) {
  const auto found = manifest.values.find(full_name(name));
  if (found == manifest.values.end()) {
    missing_.push_back(name);
    return;
  }
  const auto value = extra_from(found->second);
  if (!value)
    throw CheckpointError("manifest: values: " + in_quotes(found->first) +
                          ": must be an integer, a number or a text");
  if (value->index() != now.index())
    fail(name, std::string("must be ") + kinds[now.index()] + ", the checkpoint has " +
                   kinds[value->index()]);
  values_.emplace(name, *value);
}

void ExtrasLoad::find_unexpected(const Manifest& manifest, const Extras& extras) {
  std::set<std::string> asked;
  for (const ExtraTensor& extra : extras.tensors) asked.insert(full_name(extra.name));
  for (const SavedTensor& tensor : manifest.tensors)
    if (tensor.name.starts_with(extra_prefix) && !asked.contains(tensor.name))
      unexpected_.push_back(tensor.name.substr(extra_prefix.size()));
  for (const auto& [key, text] : manifest.values)
    if (key.starts_with(extra_prefix) && !extras.values.contains(key.substr(extra_prefix.size())))
      unexpected_.push_back(key.substr(extra_prefix.size()));
}

void ExtrasLoad::replace(Backend& backend, Extras& extras) const {
  for (const auto& [index, bytes] : bytes_)
    if (!bytes.empty())
      backend.upload(extras.tensors[index].tensor.data, bytes.data(), bytes.size());
  backend.synchronize();
  for (const auto& [name, value] : values_) extras.values[name] = value;
}

}  // namespace shampoo::checkpoint
