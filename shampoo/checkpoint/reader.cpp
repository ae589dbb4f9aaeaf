// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/reader.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {

Reader::Reader(const std::filesystem::path& folder)
    : Reader(folder, read_manifest_text(folder / manifest_name)) {}

Reader::Reader(const std::filesystem::path& folder, std::string_view manifest)
    : folder_(folder),
      manifest_(manifest_from_json(manifest, folder / manifest_name)),
      shards_(manifest_.files.size()) {
  if (const auto step = step_of(folder)) require_step(folder, manifest_, *step);
  index_files();
}

void Reader::index_files() {
  const auto for_each_entry = [&](const auto& visit) {
    for (std::uint32_t p = 0; p < manifest_.parameters.size(); ++p)
      for (std::uint32_t block = 0; block < manifest_.parameters[p].files.size(); ++block)
        visit(manifest_.parameters[p].files[block], Entry{p, block});
    for (std::uint32_t t = 0; t < manifest_.user_tensors.size(); ++t)
      visit(manifest_.user_tensors[t].file, Entry{of_user, t});
  };
  ends_.resize(manifest_.files.size() + 1);
  for_each_entry([&](std::uint32_t file, const Entry&) { ++ends_[file + 1]; });
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  entries_.resize(ends_.back());
  for_each_entry([&](std::uint32_t file, const Entry& entry) { entries_[ends_[file]++] = entry; });
}

void Reader::for_each_tensor(std::size_t file,
                             const std::function<void(const TensorShard&)>& visit) const {
  for (std::size_t e = file > 0 ? ends_[file - 1] : 0; e < ends_[file]; ++e) {
    const Entry& entry = entries_[e];
    if (entry.parameter == of_user) {
      visit(shard_of(manifest_.user_tensors[entry.index]));
      continue;
    }
    const SavedParameter& parameter = manifest_.parameters[entry.parameter];
    const grouping::Box box = parameter.grid().box(entry.index);
    for (const std::uint32_t slot : parameter.slots)
      visit(shard_of(state_tensor(parameter, manifest_.slots[slot], box), file));
  }
}

/// Each tensor of the manifest is one of the file, and the other way round.
void Reader::match_tensors(const Shard& shard, std::size_t file) const {
  std::vector<bool> found(shard.tensors());
  for_each_tensor(file, [&](const TensorShard& tensor) {
    auto known = found[shard.index_of(tensor)];
    if (known)
      throw CheckpointError(shard.file().path().string() + ": tensor " + in_quotes(tensor.key) +
                            " is in the manifest twice");
    known = true;
  });
  const auto missing = std::ranges::find(found, false) - found.begin();
  if (static_cast<std::size_t>(missing) < found.size())
    throw CheckpointError(shard.unlisted(static_cast<std::size_t>(missing)));
}

std::shared_ptr<const Shard> Reader::shard(std::size_t file) const {
  // Half of the descriptors that a process usually may have.
  constexpr std::size_t most_open = 512;
  std::shared_ptr<const Shard>& known = shards_.at(file);
  if (known) return known;
  if (opened_.size() == most_open) {
    shards_[opened_.front()].reset();
    opened_.pop_front();
  }
  auto opened = std::make_shared<const Shard>(folder_, manifest_, manifest_.files[file]);
  match_tensors(*opened, file);
  opened_.push_back(file);
  return known = std::move(opened);
}

void Reader::verify() const {
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
    const auto opened = shard(file);
    for_each_tensor(file, [&](const TensorShard& tensor) {
      opened->read_parts(tensor, nullptr, Checksums::compare);
    });
  }
}

}  // namespace shampoo::checkpoint
