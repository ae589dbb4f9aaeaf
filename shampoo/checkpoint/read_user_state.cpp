// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/read_user_state.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "grouping/joined.h"
#include "shampoo/checkpoint/snapshot.h"
#include "shampoo/protocol/diagnostics.h"
#include "shampoo/state/load_faults.h"

namespace shampoo::checkpoint {
namespace {

constexpr std::size_t most_kept = std::size_t{64} << 20;

constexpr const char* kinds[] = {"an integer", "a number", "a string"};

std::string quoted(const std::vector<std::string>& names) {
  return "'" + grouping::joined(names, "', '") + "'";
}

}  // namespace

UserStateLoad::UserStateLoad(const Reader& reader, const UserState& user,
                             const CheckpointOptions& options, Place place)
    : reader_(reader),
      checksums_(options.checksums ? Checksums::compare : Checksums::skip),
      other_ranks_(options.other_ranks),
      place_(place) {
  const Manifest& manifest = reader.manifest();
  for (std::size_t t = 0; t < user.tensors.size(); ++t) match_tensor(user.tensors[t], t);
  match_values(manifest.user_values, user.values, values_);
  for (const auto& [name, value] : user.rank_values) {
    if (manifest.rank_values.empty())
      missing_.push_back(name);
    else if (has_ranks(name))
      match_values(manifest.rank_values.at(static_cast<std::size_t>(place.rank)), {{name, value}},
                   rank_values_);
  }
  find_unexpected(user);
  throw_faults(options.state.strict);
  missing_.insert(missing_.end(), kept_.begin(), kept_.end());
  verify();
}

void UserStateLoad::fail(const std::string& name, const std::string& what) {
  faults_.push_back("user state '" + name + "': " + what);
}

/// What is per rank belongs to the same number of ranks.
bool UserStateLoad::has_ranks(const std::string& name) {
  const int saved = reader_.manifest().ranks;
  if (saved == place_.ranks) return true;
  if (other_ranks_ == OtherRanks::keep)
    kept_.push_back(name);
  else
    fail(name, "was saved by each of " + std::to_string(saved) + " ranks, and there are " +
                   std::to_string(place_.ranks) +
                   "; CheckpointOptions::other_ranks = OtherRanks::keep leaves it as it is");
  return false;
}

void UserStateLoad::match_tensor(const UserTensor& tensor, std::size_t index) {
  const auto& all = reader_.manifest().user_tensors;
  const auto any = std::ranges::find(all, tensor.name, &SavedUserTensor::name);
  if (any == all.end()) {
    missing_.push_back(tensor.name);
    return;
  }
  const bool per_rank = tensor.sharding == Sharding::per_rank;
  if (any->rank.has_value() != per_rank)
    return fail(tensor.name, per_rank ? "sharding: the checkpoint has it shared, not per rank"
                                      : "sharding: the checkpoint has it per rank, not shared");
  if (per_rank && !has_ranks(tensor.name)) return;
  const SavedUserTensor& saved =
      per_rank
          ? *std::ranges::find_if(all,
                                  [&](const SavedUserTensor& other) {
                                    return other.name == tensor.name && other.rank == place_.rank;
                                  })
          : *any;
  if (saved.shape != tensor.shape)
    return fail(tensor.name, "shape: the checkpoint has " + shape_text(saved.shape) + ", not " +
                                 shape_text(tensor.shape));
  if (saved.dtype != tensor.tensor.dtype)
    return fail(tensor.name, "tensor.dtype: the checkpoint has " +
                                 std::string(name_of(saved.dtype)) + ", not " +
                                 std::string(name_of(tensor.tensor.dtype)));
  sources_.push_back({index, shard_of(saved)});
}

void UserStateLoad::match_values(const UserValues& saved, const UserValues& now,
                                 UserValues& values) {
  for (const auto& [name, value] : now) {
    const auto found = saved.find(name);
    if (found == saved.end())
      missing_.push_back(name);
    else if (found->second.index() != value.index())
      fail(name, std::string("must be ") + kinds[value.index()] + ", the checkpoint has " +
                     kinds[found->second.index()]);
    else
      values.insert(*found);
  }
}

void UserStateLoad::find_unexpected(const UserState& user) {
  const Manifest& manifest = reader_.manifest();
  std::set<std::string_view> asked;
  for (const UserTensor& tensor : user.tensors) asked.insert(tensor.name);
  for (const SavedUserTensor& tensor : manifest.user_tensors)
    if (asked.insert(tensor.name).second) unexpected_.push_back(tensor.name);
  const auto add = [&](const UserValues& saved, const UserValues& now) {
    for (const auto& [name, value] : saved)
      if (!now.contains(name)) unexpected_.push_back(name);
  };
  add(manifest.user_values, user.values);
  if (!manifest.rank_values.empty()) add(manifest.rank_values.front(), user.rank_values);
}

void UserStateLoad::throw_faults(bool strict) const {
  if (!faults_.empty()) throw std::invalid_argument(grouping::joined(faults_, "\n"));
  if (!strict || (missing_.empty() && unexpected_.empty())) return;
  std::string text = "checkpoint: user state: ";
  if (!missing_.empty()) text += "missing " + quoted(missing_);
  if (!unexpected_.empty())
    text += (missing_.empty() ? "not asked for " : "; not asked for ") + quoted(unexpected_);
  throw std::invalid_argument(text + "; " + strict_hint);
}

void UserStateLoad::verify() {
  std::size_t kept = 0;
  for (Source& source : sources_) {
    const auto bytes =
        static_cast<std::size_t>(bytes_of(source.shard.dtype, source.shard.shape).value());
    if (bytes <= most_kept - kept) {
      kept += bytes;
      source.bytes.resize(bytes);
      reader_.read(source.shard, source.bytes, checksums_);
    } else if (checksums_ == Checksums::compare) {
      reader_.read_parts(source.shard, nullptr, checksums_);
    } else {
      reader_.shard(source.shard.file)->index_of(source.shard);
    }
  }
}

void UserStateLoad::upload(kernels::Backend& backend, const Source& source,
                           const UserTensor& tensor) const {
  auto* const to = static_cast<std::byte*>(tensor.tensor.data);
  if (!source.bytes.empty()) return backend.upload(to, source.bytes.data(), source.bytes.size());
  const auto take = [&](std::uint64_t offset, std::span<const std::byte> part) {
    backend.upload(to + offset, part.data(), part.size());
    backend.synchronize();
  };
  reader_.read_parts(source.shard, take, checksums_);
}

void UserStateLoad::write_tensors(kernels::Backend& backend, const UserState& user) const {
  for (const Source& source : sources_) upload(backend, source, user.tensors[source.index]);
  backend.synchronize();
}

void UserStateLoad::replace_values(UserState& user) const {
  for (const auto& [name, value] : values_) user.values[name] = value;
  for (const auto& [name, value] : rank_values_) user.rank_values[name] = value;
}

}  // namespace shampoo::checkpoint
