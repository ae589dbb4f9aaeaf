// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/reader.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

/// Small enough to be in the cache still when the checksum looks at it.
constexpr std::uint64_t read_bytes = std::uint64_t{1} << 20;

std::string name_of(const SafetensorsFile& file, const std::string& key) {
  return file.path().string() + ": tensor " + in_quotes(key);
}

void verify_checksum(const SafetensorsFile& file, const TensorEntry& entry,
                     const TensorShard& shard, std::uint64_t found) {
  if (found == shard.checksum) return;
  throw CheckpointError(name_of(file, shard.key) + ": the checksum of its bytes from byte " +
                        std::to_string(file.data_begin() + entry.begin) + " of the file on is " +
                        hexadecimal(found) + ", but the manifest says " +
                        hexadecimal(shard.checksum));
}

/// Reads each part of a tensor to place(offset).
template <typename Place>
void read_each(const SafetensorsFile& file, const TensorEntry& entry, const TensorShard& shard,
               const Place& place, const TakePart& take, Checksums checksums) {
  const std::uint64_t bytes = entry.end - entry.begin;
  const File opened = file.open();
  Checksum sum;
  for (std::uint64_t done = 0; done < bytes; done += read_bytes) {
    const std::span part(place(done), std::min(read_bytes, bytes - done));
    opened.read(file.data_begin() + entry.begin + done, part);
    if (checksums == Checksums::compare) sum.add(part);
    if (take) take(done, part);
  }
  if (checksums == Checksums::compare) verify_checksum(file, entry, shard, sum.value());
}

}  // namespace

SafetensorsFile open_shard(const std::filesystem::path& folder, const Manifest& manifest,
                           const ShardFile& shard) {
  const std::filesystem::path path = folder / shard.name;
  require_size(path, File::open(path).size(), shard.bytes);
  SafetensorsFile file(path);
  require_size(path, file.bytes(), shard.bytes);
  if (file.header_checksum() != shard.header_checksum)
    throw CheckpointError(path.string() +
                          ": its header is not the one that the manifest knows: changed, swapped, "
                          "or of another save");
  if (file.metadata("save") != manifest.save)
    throw CheckpointError(path.string() + ": is of another save than the manifest");
  const std::string step = file.metadata("step").value_or("none");
  if (step != std::to_string(manifest.step))
    throw CheckpointError(path.string() + ": is of step " + in_quotes(step) +
                          ", the manifest of step " + std::to_string(manifest.step));
  return file;
}

std::size_t index_of(const SafetensorsFile& file, const TensorShard& shard) {
  const auto index = file.find(shard.key);
  if (!index) throw CheckpointError(name_of(file, shard.key) + " is missing");
  const TensorEntry& entry = file.tensors()[*index];
  if (entry.dtype != shard.dtype || entry.shape != shard.shape)
    throw CheckpointError(name_of(file, shard.key) +
                          " has another dtype or shape than the manifest says");
  return *index;
}

std::string unlisted(const SafetensorsFile& file, std::size_t index) {
  return name_of(file, file.tensors()[index].name) + " is not in the manifest";
}

void read_parts(const SafetensorsFile& file, const TensorShard& shard, const TakePart& take,
                Checksums checksums) {
  const TensorEntry& entry = file.tensors()[index_of(file, shard)];
  const std::uint64_t most = std::min(read_bytes, entry.end - entry.begin);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(most);
  read_each(
      file, entry, shard, [&](std::uint64_t) { return buffer.get(); }, take, checksums);
}

Reader::Reader(const std::filesystem::path& folder)
    : manifest_(read_manifest(folder / manifest_name)) {
  if (const auto step = step_of(folder)) require_step(folder, manifest_, *step);
  for (const ShardFile& shard : manifest_.files)
    files_.push_back(open_shard(folder, manifest_, shard));
  match_tensors();
}

/// Each tensor of the manifest is one of a file, and the other way round.
void Reader::match_tensors() const {
  std::vector<std::vector<bool>> found;
  for (const SafetensorsFile& file : files_) found.emplace_back(file.tensors().size());
  for_each_shard(manifest_, [&](const TensorShard& shard) {
    const SafetensorsFile& file = files_[shard.file];
    auto known = found[shard.file][index_of(file, shard)];
    if (known) throw CheckpointError(name_of(file, shard.key) + " is in the manifest twice");
    known = true;
  });
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const auto missing = std::ranges::find(found[f], false) - found[f].begin();
    if (static_cast<std::size_t>(missing) < found[f].size())
      throw CheckpointError(unlisted(files_[f], static_cast<std::size_t>(missing)));
  }
}

void Reader::read(const TensorShard& shard, std::span<std::byte> into, Checksums checksums) const {
  const SafetensorsFile& file = files_.at(shard.file);
  const TensorEntry& entry = file.tensors()[index_of(file, shard)];
  if (into.size() != entry.end - entry.begin)
    throw std::invalid_argument("tensor " + in_quotes(shard.key) + " has " +
                                std::to_string(entry.end - entry.begin) + " bytes, not " +
                                std::to_string(into.size()));
  read_each(
      file, entry, shard, [&](std::uint64_t done) { return into.data() + done; }, nullptr,
      checksums);
}

void Reader::read_parts(const TensorShard& shard, const TakePart& take, Checksums checksums) const {
  checkpoint::read_parts(files_.at(shard.file), shard, take, checksums);
}

void Reader::verify() const {
  for_each_shard(manifest_, [&](const TensorShard& shard) { read_parts(shard, nullptr); });
}

}  // namespace shampoo::checkpoint
