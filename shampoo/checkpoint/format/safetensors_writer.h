// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "grouping/hash.h"
#include "shampoo/checkpoint/format/dtype.h"
#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {

/// A tensor that will be written.
struct TensorDescription {
  std::string name;  ///< UTF-8, unique in the file, not "__metadata__"
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape = {};  ///< empty: a scalar
};

/// Size and checksums of a finished file.
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::uint64_t header_checksum = 0;     ///< XXH3 of all bytes before the data
  std::vector<std::uint64_t> checksums;  ///< XXH3 of every tensor's bytes, in their order
};

/// Writes one safetensors file: the header at once, then the tensors one after the other, from host
/// memory, without a copy of them. A file that was not finished stays as it is.
///
/// The data begin at a multiple of 8 bytes. Readers that map files want the largest elements first.
class SafetensorsWriter {
 public:
  /// Creates the file and writes its header. Throws std::invalid_argument for descriptions that no
  /// file can hold, before anything is created, and std::system_error, also if the file exists.
  SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorDescription> tensors,
                    const std::map<std::string, std::string>& metadata = {});

  /// The next bytes of the tensors, row-major and back to back; a call may end inside a tensor.
  /// Throws std::invalid_argument for more bytes than the descriptions have, std::system_error.
  void write(std::span<const std::byte> bytes);

  /// XXH3 of the tensors that are complete, in their order.
  const std::vector<std::uint64_t>& checksums() const { return written_.checksums; }

  /// Waits until all bytes have reached the disk. Throws std::invalid_argument if some were not
  /// given, std::system_error. Nothing may be called afterwards.
  WrittenFile finish();

 private:
  void complete_tensors();

  std::vector<std::uint64_t> sizes_;
  std::size_t next_ = 0;         ///< the tensor that the next byte belongs to
  std::uint64_t in_tensor_ = 0;  ///< bytes of it that were written
  std::uint64_t left_ = 0;       ///< bytes of all tensors that were not
  std::uint64_t syncing_ = 0;    ///< bytes of the file that are on their way to the disk
  grouping::Hash checksum_;
  WrittenFile written_;
  File file_;
};

}  // namespace shampoo::checkpoint
