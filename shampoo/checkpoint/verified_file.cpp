// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/verified_file.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

void require_size(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t wanted) {
  if (bytes != wanted)
    throw CheckpointError(path.string() + ": " + std::to_string(bytes) +
                          " bytes, but the manifest says " + std::to_string(wanted));
}

/// Small enough to be in the cache still when the checksum looks at it.
constexpr std::uint64_t at_once = std::uint64_t{1} << 20;

std::string name_of(const SafetensorsFile& file, const SavedPiece& piece) {
  return file.path().string() + ": tensor " + in_quotes(piece.key);
}

}  // namespace

void require_size(const std::filesystem::path& folder, const ShardFile& listed) {
  const std::filesystem::path path = folder / listed.name;
  require_size(path, File::open(path).size(), listed.bytes);
}

SafetensorsFile open_listed(const std::filesystem::path& folder, const ShardFile& listed) {
  require_size(folder, listed);
  SafetensorsFile file(folder / listed.name);
  require_size(file.path(), file.bytes(), listed.bytes);
  if (file.header_checksum() != listed.header_checksum)
    throw CheckpointError(file.path().string() +
                          ": its header is not the one that the manifest knows: changed, swapped, "
                          "or of another save");
  return file;
}

std::map<std::string, std::string> metadata_of(const std::string& save, std::int64_t step) {
  return {{"save", save}, {"step", std::to_string(step)}};
}

void require_same_save(const SafetensorsFile& file, const Manifest& manifest) {
  if (file.metadata("save") != manifest.save)
    throw CheckpointError(file.path().string() + ": is of another save than the manifest");
  const std::string step = file.metadata("step").value_or("none");
  if (step != std::to_string(manifest.step))
    throw CheckpointError(file.path().string() + ": is of step " + in_quotes(step) +
                          ", the manifest of step " + std::to_string(manifest.step));
}

TensorEntry entry_of(const SafetensorsFile& file, const SavedTensor& tensor,
                     const SavedPiece& piece) {
  auto entry = file.find(piece.key);
  if (!entry) throw CheckpointError(name_of(file, piece) + " is missing");
  if (entry->dtype != tensor.dtype || entry->shape != piece.box.extent)
    throw CheckpointError(name_of(file, piece) +
                          " has another dtype or shape than the manifest says");
  return *std::move(entry);
}

void require_checksum(const SafetensorsFile& file, const TensorEntry& entry,
                      const SavedPiece& piece, std::uint64_t found) {
  if (found == piece.checksum) return;
  throw CheckpointError(name_of(file, piece) + ": the checksum of its bytes from byte " +
                        std::to_string(file.data_begin() + entry.begin) + " of the file on is " +
                        hexadecimal(found) + ", but the manifest says " +
                        hexadecimal(piece.checksum));
}

namespace {

/// Reads each part of a piece to place(offset).
template <typename Place>
void read_each(const SafetensorsFile& file, const TensorEntry& entry, const SavedPiece& piece,
               const Place& place, const TakePart& take, Checksums checksums) {
  const std::uint64_t bytes = entry.end - entry.begin;
  Checksum sum;
  for (std::uint64_t done = 0; done < bytes; done += at_once) {
    const std::span part(place(done), std::min(at_once, bytes - done));
    file.read(entry, done, part);
    if (checksums == Checksums::compare) sum.add(part);
    take(done, part);
  }
  if (checksums == Checksums::compare) require_checksum(file, entry, piece, sum.value());
}

}  // namespace

void read_parts(const SafetensorsFile& file, const TensorEntry& entry, const SavedPiece& piece,
                const TakePart& take, Checksums checksums) {
  const std::uint64_t most = std::min(at_once, entry.end - entry.begin);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(most);
  read_each(
      file, entry, piece, [&](std::uint64_t) { return buffer.get(); }, take, checksums);
}

void read_whole(const SafetensorsFile& file, const TensorEntry& entry, const SavedPiece& piece,
                std::byte* into, Checksums checksums) {
  read_each(
      file, entry, piece, [&](std::uint64_t done) { return into + done; }, [](auto, auto) {},
      checksums);
}

}  // namespace shampoo::checkpoint
