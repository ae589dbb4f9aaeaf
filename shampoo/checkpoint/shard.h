// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/safetensors_writer.h"
#include "shampoo/checkpoint/save.h"
#include "shampoo/checkpoint/snapshot.h"

namespace shampoo::checkpoint {

/// What names of tensors in the manifest begin with.
inline constexpr std::string_view state_prefix = "optimizer/", extra_prefix = "extra/";

/// A part of a tensor in the file of a rank.
struct ShardTensor {
  std::string name;  ///< of the tensor in the manifest
  std::string key;   ///< of the part in the file
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;  ///< of the tensor
  grouping::Box box;
  std::span<const std::byte> bytes;   ///< empty where the state has no contents
  std::optional<StateSource> source;  ///< packed while it is written, in place of `bytes`
};

/// shard-R-of-N.safetensors.
std::string shard_name(int rank, int ranks);

/// The tensors that a rank writes, given its state and all extras, in their order in the file: the
/// largest elements first, as readers that map files want it. `sources` as in Snapshot::Data.
/// Borrows from all of them.
std::vector<ShardTensor> shard_tensors(const StateDict& state, std::span<const StateSource> sources,
                                       std::span<const SnapshotExtra> extras, int rank);

/// What became of a rank's file.
struct ShardReport {
  WrittenFile file;
  StateDict state;  ///< of the rank: tensors without contents, parameters that have blocks there
};

/// Writes and syncs the file of this rank; `written` counts its bytes.
WrittenFile write_shard(const Snapshot::Data& snapshot, const std::filesystem::path& folder,
                        const SavePlace& place, std::atomic<std::int64_t>& written);

/// A report for rank 0, which is of the same version.
std::string words_of_report(const WrittenFile& file, const StateDict& state);
ShardReport report_from(const std::string& words);

}  // namespace shampoo::checkpoint
