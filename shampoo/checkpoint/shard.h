// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shampoo/checkpoint/format/safetensors_file.h"
#include "shampoo/checkpoint/tensor_shard.h"

namespace shampoo::checkpoint {

/// The bytes of tensors are compared with their checksums, or not.
enum class Checksums : std::uint8_t { compare, skip };

/// Takes a part of a tensor, with its offset there in bytes.
using TakePart = std::function<void(std::uint64_t offset, std::span<const std::byte> part)>;

/// A file of a checkpoint, open.
class Shard {
 public:
  /// Opens it. Throws CheckpointError unless its size, its header, its checksums, its save and its
  /// step are those of the manifest; std::system_error.
  Shard(const std::filesystem::path& folder, const Manifest& manifest, const ShardFile& shard);

  const SafetensorsFile& file() const { return file_; }
  /// XXH3 of a tensor, by its index in the file.
  std::uint64_t checksum(std::size_t index) const { return checksums_.at(index); }
  /// Tensors without the one of checksums.
  std::size_t tensors() const { return checksums_.size(); }

  /// The index of a tensor. Throws CheckpointError if it is missing or has another dtype or shape
  /// than the manifest says.
  std::size_t index_of(const TensorShard& tensor) const;

  /// Reads a tensor in parts of at most 1 MiB, one after the other; the checksum is compared after
  /// the last. Throws CheckpointError with file, tensor and offset if it differs;
  /// std::system_error.
  void read_parts(const TensorShard& tensor, const TakePart& take, Checksums checksums) const;
  /// The same for all of its bytes at once. Throws std::invalid_argument if `into` has another
  /// size.
  void read(const TensorShard& tensor, std::span<std::byte> into, Checksums checksums) const;

  /// The message for a tensor that the manifest does not have.
  std::string unlisted(std::size_t index) const;

 private:
  void read_checksums(const ShardFile& shard);
  std::string name_of(std::string_view key) const;
  template <typename Place>
  void read_each(std::size_t index, const Place& place, const TakePart& take,
                 Checksums checksums) const;

  SafetensorsFile file_;
  std::vector<std::uint64_t> checksums_;
};

}  // namespace shampoo::checkpoint
