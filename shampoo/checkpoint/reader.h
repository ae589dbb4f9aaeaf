// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/verified_file.h"

namespace shampoo::checkpoint {

/// Throws CheckpointError unless `manifest` is of this step and every file is there with the size
/// that it says; std::system_error.
void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step);

/// A checkpoint folder for reading. Its name, if it is one of folder_name(), manifest, headers and
/// pieces are known to fit together as soon as there is an object; nothing outside of the folder is
/// opened.
class Reader {
 public:
  /// Throws CheckpointError, std::system_error.
  explicit Reader(const std::filesystem::path& folder);

  const Manifest& manifest() const { return manifest_; }

  /// All bytes of a piece of manifest(), row-major. Throws std::invalid_argument if `into` has
  /// another size; CheckpointError with file, tensor and offset if the checksum differs, with
  /// `into` overwritten; std::system_error. Safe from several threads.
  void read(const SavedPiece& piece, std::span<std::byte> into,
            Checksums checksums = Checksums::compare) const;

  /// The same bytes in parts of at most 1 MiB, each with its offset in the piece: take(offset,
  /// part). The checksum is compared after the last.
  void read_parts(const SavedPiece& piece, const TakePart& take,
                  Checksums checksums = Checksums::compare) const;

  /// Bytes of a piece from its byte `offset` on, as many as `into` takes, without a checksum.
  /// Throws as SafetensorsFile::read() does.
  void read_part(const SavedPiece& piece, std::uint64_t offset, std::span<std::byte> into) const;

  /// Reads every piece and compares its checksum, with little memory. Throws as read() does.
  void verify() const;

 private:
  const SafetensorsFile& file_of(const SavedPiece& piece) const { return files_.at(piece.file); }
  TensorEntry entry_of(const SavedPiece& piece) const;

  Manifest manifest_;
  std::map<std::string, SafetensorsFile, std::less<>> files_;
};

}  // namespace shampoo::checkpoint
