// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "shampoo/checkpoint/manifest.h"
#include "shampoo/checkpoint/safetensors_file.h"

namespace shampoo::checkpoint {

/// Whether the bytes of tensors are compared with their checksums.
enum class Checksums : std::uint8_t { compare, skip };

/// Throws CheckpointError unless `manifest` is of this step and every file is there with the size
/// that it says; std::system_error.
void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step);

/// A checkpoint folder for reading. Manifest, headers and pieces are known to fit together as
/// soon as there is an object; nothing outside of the folder is opened.
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

  /// Reads every piece and compares its checksum, with little memory. Throws as read() does.
  void verify() const;

 private:
  void open_files();
  void match(const SavedTensor& tensor, const SavedPiece& piece) const;
  const SafetensorsFile& file_of(const SavedPiece& piece) const { return files_.at(piece.file); }
  TensorEntry entry_of(const SavedPiece& piece) const;
  void require_checksum(const SavedPiece& piece, std::uint64_t found) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile, std::less<>> files_;
};

}  // namespace shampoo::checkpoint
