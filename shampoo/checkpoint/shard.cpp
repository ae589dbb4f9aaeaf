// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/shard.h"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "grouping/hash.h"
#include "grouping/number_text.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

/// Small enough to be in the cache still when the checksum looks at it.
constexpr std::uint64_t read_bytes = std::uint64_t{1} << 20;

}  // namespace

Shard::Shard(const std::filesystem::path& folder, const Manifest& manifest, const ShardFile& shard)
    : file_(folder / shard.name, shard.bytes) {
  const std::string path = file_.path().string();
  if (file_.header_checksum() != shard.header_checksum)
    throw CheckpointError(path +
                          ": its header is not the one that the manifest knows: changed, swapped, "
                          "or of another save");
  if (file_.metadata("save") != manifest.save)
    throw CheckpointError(path + ": is of another save than the manifest");
  const std::string step = file_.metadata("step").value_or("none");
  if (step != std::to_string(manifest.step))
    throw CheckpointError(path + ": is of step " + in_quotes(step) + ", the manifest of step " +
                          std::to_string(manifest.step));
  read_checksums(shard);
}

void Shard::read_checksums(const ShardFile& shard) {
  const auto index = file_.find(checksums_name);
  const std::size_t count = file_.tensors().size() - (index ? 1 : 0);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(count), 8};
  if (!index || *index != count || file_.tensors()[count].dtype != Dtype::u8 ||
      file_.tensors()[count].shape != shape)
    throw CheckpointError(name_of(checksums_name) + " is missing or is not the last, of " +
                          std::to_string(count) + " x 8 bytes");
  checksums_.resize(count);
  const auto bytes = std::as_writable_bytes(std::span(checksums_));
  file_.read(file_.tensors()[count], 0, bytes);
  if (grouping::hash(bytes) != shard.checksums_checksum)
    throw CheckpointError(name_of(checksums_name) + ": the checksum of its bytes from byte " +
                          std::to_string(file_.data_begin() + file_.tensors()[count].begin) +
                          " of the file on is not the one in the manifest");
}

std::string Shard::name_of(std::string_view key) const {
  return file_.path().string() + ": tensor " + in_quotes(key);
}

std::string Shard::unlisted(std::size_t index) const {
  return name_of(file_.tensors()[index].name) + " is not in the manifest";
}

std::size_t Shard::index_of(const TensorShard& tensor) const {
  const auto index = file_.find(tensor.key);
  if (!index || *index == tensors()) throw CheckpointError(name_of(tensor.key) + " is missing");
  const TensorEntry& entry = file_.tensors()[*index];
  if (entry.dtype != tensor.dtype || entry.shape != tensor.shape)
    throw CheckpointError(name_of(tensor.key) +
                          " has another dtype or shape than the manifest says");
  return *index;
}

/// Reads each part of a tensor to place(offset).
template <typename Place>
void Shard::read_each(std::size_t index, const Place& place, const TakePart& take,
                      Checksums checksums) const {
  const TensorEntry& entry = file_.tensors()[index];
  const std::uint64_t bytes = entry.end - entry.begin;
  grouping::Hash sum;
  for (std::uint64_t done = 0; done < bytes; done += read_bytes) {
    const std::span part(place(done), std::min(read_bytes, bytes - done));
    file_.read(entry, done, part);
    if (checksums == Checksums::compare) sum.add(part);
    if (take) take(done, part);
  }
  if (checksums == Checksums::skip || sum.value() == checksum(index)) return;
  throw CheckpointError(name_of(entry.name) + ": the checksum of its bytes from byte " +
                        std::to_string(file_.data_begin() + entry.begin) + " of the file on is " +
                        grouping::hexadecimal(sum.value()) + ", but it was saved with " +
                        grouping::hexadecimal(checksum(index)));
}

void Shard::read_parts(const TensorShard& tensor, const TakePart& take, Checksums checksums) const {
  const std::size_t index = index_of(tensor);
  const TensorEntry& entry = file_.tensors()[index];
  const std::uint64_t most = std::min(read_bytes, entry.end - entry.begin);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(most);
  read_each(
      index, [&](std::uint64_t) { return buffer.get(); }, take, checksums);
}

void Shard::read(const TensorShard& tensor, std::span<std::byte> into, Checksums checksums) const {
  const std::size_t index = index_of(tensor);
  const std::uint64_t bytes = file_.tensors()[index].end - file_.tensors()[index].begin;
  if (into.size() != bytes)
    throw std::invalid_argument("tensor " + in_quotes(tensor.key) + " has " +
                                std::to_string(bytes) + " bytes, not " +
                                std::to_string(into.size()));
  read_each(
      index, [&](std::uint64_t done) { return into.data() + done; }, nullptr, checksums);
}

}  // namespace shampoo::checkpoint
