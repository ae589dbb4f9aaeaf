// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/safetensors_header.h"
#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {

/// Throws CheckpointError unless a file has the size that the manifest says.
void require_size(const std::filesystem::path& file, std::uint64_t bytes, std::uint64_t wanted);

/// A safetensors file and its header, which is checked as soon as there is an object: its length
/// fits the file and is at most most_header_bytes, see parse_safetensors_header(), and no name
/// occurs twice.
class SafetensorsFile {
 public:
  /// Opens the file, once and for all reads. Throws CheckpointError, also unless it has `bytes`
  /// bytes, or std::system_error, both with the path.
  explicit SafetensorsFile(const std::filesystem::path& path,
                           std::optional<std::uint64_t> bytes = std::nullopt);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In the order of their data.
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  /// The index of a tensor.
  std::optional<std::size_t> find(std::string_view name) const;
  /// The text that __metadata__ has under this key.
  std::optional<std::string> metadata(std::string_view key) const;

  std::uint64_t bytes() const { return bytes_; }
  /// Offset of the data in the file.
  std::uint64_t data_begin() const { return data_begin_; }
  /// XXH3 of all bytes before the data.
  std::uint64_t header_checksum() const { return header_checksum_; }

  /// Bytes of a tensor, from its byte `offset` on, as many as `into` takes. Throws
  /// std::invalid_argument beyond the tensor; CheckpointError, std::system_error. Safe from several
  /// threads.
  void read(const TensorEntry& tensor, std::uint64_t offset, std::span<std::byte> into) const;

 private:
  void read_header();
  void index_names();

  File file_;
  std::uint64_t bytes_ = 0, data_begin_ = 0, header_checksum_ = 0;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;  ///< indices of tensors
};

}  // namespace shampoo::checkpoint
