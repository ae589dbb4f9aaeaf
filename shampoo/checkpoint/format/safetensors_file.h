// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shampoo/checkpoint/format/safetensors_header_parser.h"
#include "shampoo/checkpoint/format/tensor_entry.h"

namespace shampoo::checkpoint {

/// A safetensors file and what its header says. The header is known to be right as soon as there is
/// an object: its length fits the file and is at most 100,000,000; it is UTF-8 and JSON of the
/// expected form, from '{' on, with no key twice and no field that the format does not know; dtypes
/// are known, sizes neither overflow nor end inside a byte and fit their ranges; the ranges cover
/// the data without a hole, an overlap or a byte beyond. Memory is at most that of the header's
/// text.
///
/// Refused although the format allows them: strings of more than 1 MiB in the header, sides of 2^63
/// and more, shapes of more than 1024 sides, white space before the header.
class SafetensorsFile {
 public:
  /// Follows no symbolic link in the last part of `path`. Throws CheckpointError or
  /// std::system_error, both with the path.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// Number of tensors.
  int size() const { return read_.header.size(); }
  /// In the order of their data; 0 <= index < size().
  TensorEntry operator[](int index) const { return read_.header[index]; }
  std::optional<TensorEntry> find(std::string_view name) const;
  /// The text that __metadata__ has under this key.
  std::optional<std::string> metadata(std::string_view key) const {
    return read_.header.metadata(key);
  }

  std::uint64_t bytes() const { return bytes_; }
  /// Where the data begin in the file.
  std::uint64_t data_begin() const { return read_.data_begin; }
  /// XXH3 of all bytes before the data.
  std::uint64_t header_checksum() const { return read_.checksum; }

  /// Bytes of a tensor, from its byte `offset` on, as many as `into` takes. Throws
  /// std::invalid_argument beyond the tensor; CheckpointError, std::system_error. Safe from several
  /// threads.
  void read(const TensorEntry& tensor, std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::filesystem::path path_;
  std::uint64_t bytes_ = 0;
  ReadHeader read_;
};

}  // namespace shampoo::checkpoint
