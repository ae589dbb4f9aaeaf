// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "grouping/blocks.h"
#include "shampoo/checkpoint/format/dtype.h"

namespace shampoo::checkpoint {

/// A file of a checkpoint.
struct ShardFile {
  std::string name;                   ///< plain: of this folder
  std::uint64_t bytes = 0;            ///< of the whole file
  std::uint64_t header_checksum = 0;  ///< XXH3 of its bytes before the data

  bool operator==(const ShardFile&) const = default;
};

/// A part of a tensor that lies in one file.
struct SavedPiece {
  grouping::Box box;  ///< in the whole tensor; its extent is the shape in the file
  std::string file;
  std::string key;             ///< the tensor's name in the file
  std::uint64_t checksum = 0;  ///< XXH3 of its bytes

  bool operator==(const SavedPiece&) const = default;
};

/// A tensor, cut into pieces that cover it, each element once.
struct SavedTensor {
  std::string name;  ///< unique in the checkpoint
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;  ///< global; empty: a scalar
  std::vector<SavedPiece> pieces;

  bool operator==(const SavedTensor&) const = default;
};

/// What a checkpoint consists of. Written last: a folder with a manifest is complete.
struct Manifest {
  std::string save;             ///< unique text of the save: see new_save_id()
  std::string library_version;  ///< of the library that saved
  int world = 1;                ///< ranks that saved
  std::int64_t step = 0;
  std::uint64_t plan_hash = 0;
  std::string arithmetic;  ///< of the backend: equal texts compute equal bits
  std::vector<ShardFile> files;
  std::vector<SavedTensor> tensors;
  std::map<std::string, std::string> values;  ///< whatever is no tensor, spelt by who saves

  bool operator==(const Manifest&) const = default;
};

/// The version of the format that is written and read; others are refused.
inline constexpr int manifest_schema = 1;

inline constexpr std::string_view manifest_name = "manifest.json";

/// Whether `name` can be a file of a checkpoint: 1 to 255 bytes, letters, digits, '.', '_' and '-',
/// the first no '.'; not the manifest's own name.
bool is_plain_name(std::string_view name);

/// Throws CheckpointError that names field, tensor or file: for names that are not plain, files,
/// tensors or keys that occur twice, files that are not listed, boxes that leave their tensor or do
/// not cover it exactly once, shapes whose size overflows, negative numbers.
void validate(const Manifest& manifest);

/// One line per file and per piece; the last member is the checksum of all text before it. Throws
/// as validate() does, and for text that is not UTF-8.
std::string to_json(const Manifest& manifest);

/// Strict: throws CheckpointError for anything that to_json() of this schema does not give, also
/// for fields that it does not know and fields that occur twice.
Manifest manifest_from_json(std::string_view text);

/// Reads a file of at most 1 GiB. Throws CheckpointError, std::system_error, both with the path.
Manifest read_manifest(const std::filesystem::path& path);

}  // namespace shampoo::checkpoint
