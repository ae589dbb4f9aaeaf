// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/shard.h"

namespace shampoo::checkpoint {

/// A checkpoint folder for reading. Its name, if it is one of folder_name(), and its manifest are
/// known to fit together as soon as there is an object. A file is opened when the first of its
/// tensors is read, and is then checked against the manifest; it stays open, but for the ones that
/// were opened first where more than 512 are.
class Reader {
 public:
  /// Reads the manifest. Throws CheckpointError, std::system_error.
  explicit Reader(const std::filesystem::path& folder);
  /// With the text of its manifest.
  Reader(const std::filesystem::path& folder, std::string_view manifest);

  const Manifest& manifest() const { return manifest_; }

  /// A file of the manifest. Throws as Shard's constructor does, and CheckpointError unless its
  /// tensors are those of the manifest.
  std::shared_ptr<const Shard> shard(std::size_t file) const;
  /// Calls visit(tensor) for every tensor that the manifest has in a file.
  void for_each_tensor(std::size_t file,
                       const std::function<void(const TensorShard&)>& visit) const;

  /// All bytes of a tensor of manifest(), row-major. Throws as shard() and Shard::read() do, with
  /// `into` overwritten.
  void read(const TensorShard& tensor, std::span<std::byte> into,
            Checksums checksums = Checksums::compare) const {
    shard(tensor.file)->read(tensor, into, checksums);
  }

  /// The same bytes in parts.
  void read_parts(const TensorShard& tensor, const TakePart& take,
                  Checksums checksums = Checksums::compare) const {
    shard(tensor.file)->read_parts(tensor, take, checksums);
  }

  /// Opens every file, reads every tensor and compares its checksum, with little memory. Throws as
  /// read() does.
  void verify() const;

 private:
  /// Tensors of the manifest: those of a block, or one of the user.
  struct Entry {
    std::uint32_t parameter, index;
  };
  static constexpr std::uint32_t of_user = ~std::uint32_t{0};

  void index_files();
  void match_tensors(const Shard& shard, std::size_t file) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<Entry> entries_;                                ///< sorted by file
  std::vector<std::size_t> ends_;                             ///< by file: where its entries end
  mutable std::vector<std::shared_ptr<const Shard>> shards_;  ///< by file; null: not open
  mutable std::deque<std::size_t> opened_;                    ///< in this order
};

}  // namespace shampoo::checkpoint
