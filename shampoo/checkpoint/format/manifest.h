// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/block_grid.h"
#include "shampoo/checkpoint/format/dtype.h"
#include "shampoo/state_dict.h"
#include "shampoo/user_state.h"

namespace shampoo::checkpoint {

/// A file of a checkpoint.
struct ShardFile {
  std::string name;                      ///< plain: of this folder
  std::uint64_t bytes = 0;               ///< size of the whole file
  std::uint64_t header_checksum = 0;     ///< XXH3 of its bytes before the data
  std::uint64_t checksums_checksum = 0;  ///< XXH3 of its tensor of checksums

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

using SavedRecipe = std::vector<RecipeField>;

/// A parameter, and its blocks: those of grid(), each with one tensor for each slot, all of them in
/// one file.
struct SavedParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> merged_shape;  ///< small dimensions merged; blocks are cut from it
  std::int64_t block_size = 1;             ///< longest side of a block
  std::int64_t steps = 0;
  double averaging_weight_sum = 0;
  std::uint32_t recipe = 0, rates = 0;                      ///< rows of the manifest's tables
  std::optional<std::uint32_t> base_rates = std::nullopt;   ///< likewise, of the table of rates
  std::vector<std::string> own_rates = {};                  ///< names of rates, see ParameterState
  std::optional<std::uint32_t> group_rates = std::nullopt;  ///< as base_rates
  std::vector<std::uint32_t> slots = {};                    ///< rows of the manifest's table
  std::vector<std::uint32_t> files = {};  ///< by block: index in the manifest's files
  std::vector<int> failures = {};         ///< by block, likewise

  BlockGrid grid() const { return {merged_shape, block_size}; }
  BlockState block_state(std::int64_t block) const;

  bool operator==(const SavedParameter&) const = default;
};

/// A tensor of the trainer.
struct SavedUserTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;         ///< empty: a scalar
  std::uint32_t file = 0;                  ///< index in the manifest's files
  std::optional<int> rank = std::nullopt;  ///< whose it is; empty: shared by all ranks

  bool operator==(const SavedUserTensor&) const = default;
};

using UserValues = std::map<std::string, UserValue>;

/// One of several optimizers, whose parameters have the names "<name>/<its own>".
struct SavedOptimizer {
  std::string name;
  std::string arithmetic = {};  ///< as in Manifest, but its own
  std::uint64_t plan_hash = 0;
  Progress progress = {};

  bool operator==(const SavedOptimizer&) const = default;
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
  /// Empty: there is one, without a name. Otherwise `arithmetic`, `plan_hash` and `progress` are
  /// those of the first.
  std::vector<SavedOptimizer> optimizers = {};
  UserValues user_values;
  std::vector<UserValues> rank_values;  ///< by rank; empty: none
  std::vector<SavedUserTensor> user_tensors;
  std::vector<ShardFile> files;
  std::vector<SavedSlot> slots;
  std::vector<SavedRecipe> recipes;  ///< each sorted by name
  std::vector<Rates> rates;
  std::vector<SavedParameter> parameters;

  bool operator==(const Manifest&) const = default;
};

/// The format that is written, and the newest that is read.
inline constexpr int newest_format = 1;

/// In `required_features` where there are named optimizers.
inline constexpr std::string_view optimizers_feature = "optimizers";

inline constexpr std::string_view manifest_name = "manifest.json";

/// Longest `save` and `parent`, in bytes.
inline constexpr std::size_t longest_save_id = 128;

/// Limits of a manifest, for reading and writing: what is read stays in proportion to the text.
namespace limits {
inline constexpr std::uint64_t manifest_bytes = std::uint64_t{256} << 20;
inline constexpr std::size_t sides = 64;              ///< of a shape
inline constexpr std::size_t slots = 64;              ///< of a parameter
inline constexpr std::size_t blocks = 1 << 22;        ///< of a parameter
inline constexpr std::size_t recipe_fields = 1024;    ///< of a recipe
inline constexpr std::size_t recipes = 1 << 12;       ///< in the table; of slots as many
inline constexpr std::size_t rows = 1 << 20;          ///< of any other list
inline constexpr std::size_t user_values = 1 << 14;   ///< in one object
inline constexpr std::size_t value_units = 1 << 21;   ///< of all in one object, see units_of()
inline constexpr std::size_t text_bytes = 64 << 10;   ///< of a name or another text
inline constexpr std::size_t value_bytes = 16 << 20;  ///< of a user value
}  // namespace limits

/// `name` can be a file of a checkpoint: 1 to 255 bytes, letters, digits, '.', '_' and '-',
/// the first no '.'; not the manifest's own name.
bool is_plain_name(std::string_view name);

/// `name` can be that of one of several optimizers: 1 to 255 letters, digits, '.', '_' and '-', the
/// first no '.'.
bool is_optimizer_name(std::string_view name);

/// Throws CheckpointError that names field, parameter, tensor or file: for file names that are not
/// plain, names that occur twice, indices out of range, another number of files than there are
/// blocks, sizes that overflow, negative numbers, rates that are not finite, and what exceeds a
/// limit.
void validate(const Manifest& manifest);

/// One JSON object, a line per file, table row and parameter; its last member is the checksum of
/// all text before it. Throws as validate() does, for text that is not UTF-8 or too long, and for
/// whatever manifest_from_json() would refuse.
std::string to_json(const Manifest& manifest);
/// A value as it stands in a manifest: numbers are exact. Throws CheckpointError for text that is
/// not UTF-8.
std::string to_json(const UserValue& value);
std::string to_json(const UserValues& values);
/// What a value with its name counts for, in units of 16 bytes; an object without values for 8.
std::size_t units_of(const std::string& name, const UserValue& value);
/// Inverse of to_json(). Throws CheckpointError.
UserValues user_values_from_json(const std::string& text);

/// Throws CheckpointError, which names the field: for a newer format and for features that it
/// requires and this version does not know, with the version that wrote it; fields that are
/// missing, known fields that are there twice or of another type, and as validate() does. Unknown
/// fields are ignored.
Manifest manifest_from_json(std::string_view text);

/// The last member of a manifest and its closing brace, given all text before them.
std::string checksum_member(std::string_view body);

/// Reads a file of at most limits::manifest_bytes. Throws CheckpointError, std::system_error, both
/// with the path.
std::string read_manifest_text(const std::filesystem::path& path);
/// manifest_from_json(), with the path in errors.
Manifest manifest_from_json(std::string_view text, const std::filesystem::path& path);
Manifest read_manifest(const std::filesystem::path& path);

}  // namespace shampoo::checkpoint
