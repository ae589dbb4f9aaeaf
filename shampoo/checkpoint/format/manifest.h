// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/dtype.h"
#include "shampoo/state_dict.h"
#include "shampoo/user_state.h"

namespace shampoo::checkpoint {

/// A file of a checkpoint.
struct ShardFile {
  std::string name;                   ///< plain: of this folder
  std::uint64_t bytes = 0;            ///< size of the whole file
  std::uint64_t header_checksum = 0;  ///< XXH3 of its bytes before the data

  bool operator==(const ShardFile&) const = default;
};

/// As JSON spells them, by StateLayout.
inline constexpr std::array<std::string_view, 4> layout_names{"elements", "symmetric", "square",
                                                              "vector"};

/// A slot of a parameter's state.
struct SavedSlot {
  std::string name;
  StateLayout layout = StateLayout::elements;
  int dimension = 0;  ///< dimension of the block, for layouts other than `elements`
  Dtype dtype = Dtype::f32;

  bool operator==(const SavedSlot&) const = default;
};

/// A block of a parameter: one tensor for each slot, all of them in one file.
struct SavedBlock {
  BlockState state;
  std::size_t file = 0;                  ///< index in the manifest's files
  std::vector<std::uint64_t> checksums;  ///< XXH3 of the tensor of each slot

  bool operator==(const SavedBlock&) const = default;
};

struct SavedParameter {
  ParameterState state;                    ///< `blocks` are empty, `recipe` is sorted by name
  std::vector<std::int64_t> merged_shape;  ///< small dimensions merged; blocks are cut from it
  std::vector<SavedSlot> slots;
  std::vector<SavedBlock> blocks;  ///< cover the shape, each element once

  bool operator==(const SavedParameter&) const = default;
};

/// A tensor of the trainer.
struct SavedUserTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::size_t file = 0;             ///< index in the manifest's files
  std::uint64_t checksum = 0;       ///< XXH3 of its bytes

  bool operator==(const SavedUserTensor&) const = default;
};

/// The index of a checkpoint, and everything in it that is not a tensor. Written last: a folder
/// with a manifest is complete. The README of shampoo/checkpoint/ describes its JSON.
struct Manifest {
  std::string save;  ///< unique text of the save: see new_save_id()
  /// Larger than that of every checkpoint that was there when it was saved: the largest is the
  /// newest, whatever its step.
  std::int64_t sequence = 0;
  std::string parent;      ///< `save` of the checkpoint that the run went on from; may be empty
  std::string library;     ///< version of the library that saved
  std::string arithmetic;  ///< arithmetic of the backend: equal texts compute equal bits
  int ranks = 1;           ///< number of ranks that saved
  std::int64_t step = 0;
  std::uint64_t plan_hash = 0;
  Progress progress;
  std::vector<ShardFile> files;
  std::vector<SavedParameter> parameters;
  std::vector<SavedUserTensor> user_tensors;
  std::map<std::string, UserValue> user_values;

  bool operator==(const Manifest&) const = default;
};

/// The version of the format that is written and read; others are refused.
inline constexpr int manifest_schema = 3;

inline constexpr std::string_view manifest_name = "manifest.json";

/// Longest `save` and `parent`, in bytes.
inline constexpr std::size_t longest_save_id = 128;

/// Longest manifest, in bytes.
inline constexpr std::uint64_t most_manifest_bytes = std::uint64_t{1} << 30;

/// `name` can be a file of a checkpoint: 1 to 255 bytes, letters, digits, '.', '_' and '-',
/// the first no '.'; not the manifest's own name.
bool is_plain_name(std::string_view name);

/// Throws CheckpointError that names field, parameter, tensor or file: for file names that are not
/// plain, names that occur twice, indices out of range, blocks that do not cover their parameter
/// exactly once, sizes that overflow, negative numbers, rates that are not finite.
void validate(const Manifest& manifest);

/// One JSON object, a line per file, table row and block; its last member is the checksum of all
/// text before it. Throws as validate() does, and for text that is not UTF-8 or too long.
std::string to_json(const Manifest& manifest);
/// A value as it stands in a manifest: numbers are exact. Throws CheckpointError for text that is
/// not UTF-8.
std::string to_json(const UserValue& value);

/// Strict: throws CheckpointError, which names the field, for another schema, fields that are
/// unknown, missing or there twice, values of another type, and as validate() does.
Manifest manifest_from_json(std::string_view text);

/// The last member of a manifest and its closing brace, given all text before them.
std::string checksum_member(std::string_view body);

/// Reads a file of at most most_manifest_bytes. Throws CheckpointError, std::system_error, both
/// with the path.
Manifest read_manifest(const std::filesystem::path& path);

}  // namespace shampoo::checkpoint
