// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/read_user_state.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "shampoo/checkpoint/snapshot.h"
#include "shampoo/protocol/diagnostics.h"

namespace shampoo::checkpoint {
namespace {

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw std::invalid_argument("user state '" + name + "': " + what);
}

constexpr const char* kinds[] = {"an integer", "a number", "a string"};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

}  // namespace

UserStateLoad::UserStateLoad(const Reader& reader, Checksums checksums, const UserState& user,
                             bool strict) {
  validate_user_state(user);
  for (std::size_t t = 0; t < user.tensors.size(); ++t)
    read_tensor(reader, checksums, user.tensors[t], t);
  for (const auto& [name, now] : user.values) read_value(reader.manifest(), name, now);
  find_unexpected(reader.manifest(), user);
  if (!strict || (missing_.empty() && unexpected_.empty())) return;
  std::string text = "checkpoint: user state: ";
  if (!missing_.empty()) text += "missing " + joined(missing_);
  if (!unexpected_.empty())
    text += (missing_.empty() ? "not asked for " : "; not asked for ") + joined(unexpected_);
  throw std::invalid_argument(text + "; LoadOptions::strict = false accepts that");
}

void UserStateLoad::read_tensor(const Reader& reader, Checksums checksums, const UserTensor& tensor,
                                std::size_t index) {
  const auto& all = reader.manifest().user_tensors;
  const auto saved = std::ranges::find(all, tensor.name, &SavedUserTensor::name);
  if (saved == all.end()) {
    missing_.push_back(tensor.name);
    return;
  }
  if (saved->shape != tensor.shape)
    fail(tensor.name, "shape: the checkpoint has " + shape_text(saved->shape) + ", not " +
                          shape_text(tensor.shape));
  if (saved->dtype != tensor.tensor.dtype)
    fail(tensor.name, "tensor.dtype: the checkpoint has " + std::string(name_of(saved->dtype)) +
                          ", not " + std::string(name_of(tensor.tensor.dtype)));
  std::vector<std::byte>& bytes = bytes_[index];
  bytes.resize(static_cast<std::size_t>(bytes_of(tensor)));
  reader.read(shard_of(*saved), bytes, checksums);
}

void UserStateLoad::read_value(const Manifest& manifest, const std::string& name,
                               const UserValue& now) {
  const auto found = manifest.user_values.find(name);
  if (found == manifest.user_values.end()) {
    missing_.push_back(name);
    return;
  }
  if (found->second.index() != now.index())
    fail(name, std::string("must be ") + kinds[now.index()] + ", the checkpoint has " +
                   kinds[found->second.index()]);
  values_.insert(*found);
}

void UserStateLoad::find_unexpected(const Manifest& manifest, const UserState& user) {
  std::set<std::string_view> asked;
  for (const UserTensor& tensor : user.tensors) asked.insert(tensor.name);
  for (const SavedUserTensor& tensor : manifest.user_tensors)
    if (!asked.contains(tensor.name)) unexpected_.push_back(tensor.name);
  for (const auto& [name, value] : manifest.user_values)
    if (!user.values.contains(name)) unexpected_.push_back(name);
}

void UserStateLoad::replace(kernels::Backend& backend, UserState& user) const {
  for (const auto& [index, bytes] : bytes_)
    if (!bytes.empty()) backend.upload(user.tensors[index].tensor.data, bytes.data(), bytes.size());
  backend.synchronize();
  for (const auto& [name, value] : values_) user.values[name] = value;
}

}  // namespace shampoo::checkpoint
