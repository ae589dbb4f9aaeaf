// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/reader.h"

#include <map>
#include <stdexcept>
#include <string_view>

#include "shampoo/checkpoint/storage/checkpoint_directory.h"
#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

/// Every tensor of the files is a piece, and all are of the save that the manifest is of.
void require_no_more(const Manifest& manifest,
                     const std::map<std::string, SafetensorsFile, std::less<>>& files) {
  std::map<std::string_view, int> pieces;
  for (const SavedTensor& tensor : manifest.tensors)
    for (const SavedPiece& piece : tensor.pieces) ++pieces[piece.file];
  for (const auto& [name, file] : files) {
    require_same_save(file, manifest);
    if (file.size() != pieces[name])
      throw CheckpointError(file.path().string() + ": has " + std::to_string(file.size()) +
                            " tensors, but the manifest lists " + std::to_string(pieces[name]));
  }
}

void require_step(const std::filesystem::path& folder, const Manifest& manifest,
                  std::int64_t step) {
  if (manifest.step != step)
    throw CheckpointError(folder.string() + ": the manifest is of step " +
                          std::to_string(manifest.step) + ", not " + std::to_string(step));
}

}  // namespace

void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step) {
  require_step(folder, manifest, step);
  for (const ShardFile& file : manifest.files) require_size(folder, file);
}

Reader::Reader(const std::filesystem::path& folder)
    : manifest_(read_manifest(folder / manifest_name)) {
  if (const auto step = step_of(folder)) require_step(folder, manifest_, *step);
  for (const ShardFile& listed : manifest_.files)
    files_.emplace(listed.name, open_listed(folder, listed));
  for (const SavedTensor& tensor : manifest_.tensors)
    for (const SavedPiece& piece : tensor.pieces)
      checkpoint::entry_of(file_of(piece), tensor, piece);
  require_no_more(manifest_, files_);
}

TensorEntry Reader::entry_of(const SavedPiece& piece) const {
  const auto entry = file_of(piece).find(piece.key);
  if (!entry)
    throw CheckpointError(file_of(piece).path().string() + ": tensor " + in_quotes(piece.key) +
                          " is missing");
  return *entry;
}

void Reader::read(const SavedPiece& piece, std::span<std::byte> into, Checksums checksums) const {
  const TensorEntry entry = entry_of(piece);
  if (into.size() != entry.end - entry.begin)
    throw std::invalid_argument("tensor " + in_quotes(piece.key) + " has " +
                                std::to_string(entry.end - entry.begin) + " bytes, not " +
                                std::to_string(into.size()));
  read_whole(file_of(piece), entry, piece, into.data(), checksums);
}

void Reader::read_parts(const SavedPiece& piece, const TakePart& take, Checksums checksums) const {
  checkpoint::read_parts(file_of(piece), entry_of(piece), piece, take, checksums);
}

void Reader::read_part(const SavedPiece& piece, std::uint64_t offset,
                       std::span<std::byte> into) const {
  file_of(piece).read(entry_of(piece), offset, into);
}

void Reader::verify() const {
  for (const SavedTensor& tensor : manifest_.tensors)
    for (const SavedPiece& piece : tensor.pieces) read_parts(piece, [](auto, auto) {});
}

}  // namespace shampoo::checkpoint
