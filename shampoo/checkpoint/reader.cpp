// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/reader.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "shampoo/checkpoint/checksum.h"
#include "shampoo/checkpoint/error.h"
#include "shampoo/checkpoint/file.h"

namespace shampoo::checkpoint {
namespace {

void require_size(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t wanted) {
  if (bytes != wanted)
    throw CheckpointError(path.string() + ": " + std::to_string(bytes) +
                          " bytes, but the manifest says " + std::to_string(wanted));
}

}  // namespace

void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step) {
  if (manifest.step != step)
    throw CheckpointError(folder.string() + ": the manifest is of step " +
                          std::to_string(manifest.step) + ", not " + std::to_string(step));
  for (const ShardFile& file : manifest.files) {
    const std::filesystem::path path = folder / file.name;
    require_size(path, File::open(path).size(), file.bytes);
  }
}

Reader::Reader(const std::filesystem::path& folder)
    : folder_(folder), manifest_(read_manifest(folder / manifest_name)) {
  open_files();
  for (const SavedTensor& tensor : manifest_.tensors)
    for (const SavedPiece& piece : tensor.pieces) match(tensor, piece);
}

void Reader::open_files() {
  for (const ShardFile& listed : manifest_.files) {
    const std::filesystem::path path = folder_ / listed.name;
    require_size(path, File::open(path).size(), listed.bytes);
    SafetensorsFile file(path);
    require_size(path, file.bytes(), listed.bytes);
    if (file.header_checksum() != listed.header_checksum)
      throw CheckpointError(path.string() +
                            ": its header is not the one that the manifest knows: changed, "
                            "swapped, or of another save");
    files_.emplace(listed.name, std::move(file));
  }
}

TensorEntry Reader::entry_of(const SavedPiece& piece) const {
  const auto entry = file_of(piece).find(piece.key);
  if (!entry)
    throw CheckpointError(file_of(piece).path().string() + ": tensor " + in_quotes(piece.key) +
                          " is missing");
  return *entry;
}

void Reader::match(const SavedTensor& tensor, const SavedPiece& piece) const {
  const TensorEntry entry = entry_of(piece);
  if (entry.dtype != tensor.dtype || entry.shape != piece.box.extent)
    throw CheckpointError(file_of(piece).path().string() + ": tensor " + in_quotes(piece.key) +
                          " has another dtype or shape than the manifest says");
}

void Reader::require_checksum(const SavedPiece& piece, std::uint64_t found) const {
  if (found == piece.checksum) return;
  const SafetensorsFile& file = file_of(piece);
  throw CheckpointError(file.path().string() + ": tensor " + in_quotes(piece.key) +
                        ": the checksum of its bytes from byte " +
                        std::to_string(file.data_begin() + entry_of(piece).begin) +
                        " of the file on is " + hexadecimal(found) + ", but the manifest says " +
                        hexadecimal(piece.checksum));
}

void Reader::read(const SavedPiece& piece, std::span<std::byte> into, Checksums checksums) const {
  const TensorEntry entry = entry_of(piece);
  if (into.size() != entry.end - entry.begin)
    throw std::invalid_argument("tensor " + in_quotes(piece.key) + " has " +
                                std::to_string(entry.end - entry.begin) + " bytes, not " +
                                std::to_string(into.size()));
  file_of(piece).read(entry, 0, into);
  if (checksums == Checksums::compare) require_checksum(piece, checksum(into));
}

void Reader::verify() const {
  constexpr std::uint64_t at_once = std::uint64_t{1} << 20;
  std::vector<std::byte> buffer(at_once);
  Checksum sum;
  for (const SavedTensor& tensor : manifest_.tensors)
    for (const SavedPiece& piece : tensor.pieces) {
      const TensorEntry entry = entry_of(piece);
      const std::uint64_t bytes = entry.end - entry.begin;
      sum.restart();
      for (std::uint64_t done = 0; done < bytes; done += at_once) {
        const auto part = std::span(buffer).first(std::min(at_once, bytes - done));
        file_of(piece).read(entry, done, part);
        sum.add(part);
      }
      require_checksum(piece, sum.value());
    }
}

}  // namespace shampoo::checkpoint
