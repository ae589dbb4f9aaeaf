// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/tensor_shard.h"

namespace shampoo::checkpoint {

/// The bytes of tensors are compared with their checksums, or not.
enum class Checksums : std::uint8_t { compare, skip };

/// Takes a part of a tensor, with its offset there in bytes.
using TakePart = std::function<void(std::uint64_t offset, std::span<const std::byte> part)>;

/// Opens a file of a checkpoint. Throws CheckpointError unless its size, its header, its save and
/// its step are those of the manifest; std::system_error.
SafetensorsFile open_shard(const std::filesystem::path& folder, const Manifest& manifest,
                           const ShardFile& shard);

/// The index of a tensor in its file. Throws CheckpointError if it is missing or has another dtype
/// or shape than the manifest says.
std::size_t index_of(const SafetensorsFile& file, const TensorShard& shard);

/// The message for a tensor in a file that the manifest does not have.
std::string unlisted(const SafetensorsFile& file, std::size_t index);

/// Reads a tensor in parts of at most 1 MiB, one after the other; the checksum is compared after
/// the last. Throws CheckpointError with file, tensor and offset if it differs; std::system_error.
void read_parts(const SafetensorsFile& file, const TensorShard& shard, const TakePart& take,
                Checksums checksums = Checksums::compare);

/// A checkpoint folder for reading. Its name, if it is one of folder_name(), manifest and headers
/// are known to fit together as soon as there is an object; nothing outside of the folder is
/// opened.
class Reader {
 public:
  /// Throws CheckpointError, std::system_error.
  explicit Reader(const std::filesystem::path& folder);

  const Manifest& manifest() const { return manifest_; }

  /// All bytes of a tensor of manifest(), row-major. Throws std::invalid_argument if `into` has
  /// another size; otherwise as read_parts() does, with `into` overwritten. Safe from several
  /// threads.
  void read(const TensorShard& shard, std::span<std::byte> into,
            Checksums checksums = Checksums::compare) const;

  /// The same bytes in parts.
  void read_parts(const TensorShard& shard, const TakePart& take,
                  Checksums checksums = Checksums::compare) const;

  /// Reads every tensor and compares its checksum, with little memory. Throws as read() does.
  void verify() const;

 private:
  void match_tensors() const;

  Manifest manifest_;
  std::vector<SafetensorsFile> files_;  ///< by their index in the manifest
};

}  // namespace shampoo::checkpoint
