// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/snapshot.h"

namespace shampoo::checkpoint {

/// Part of the manifest about one rank's file.
struct ShardReport {
  ShardFile file;
  /// Name, slots, and the blocks in the file.
  std::vector<SavedParameter> parameters;
  std::vector<SavedUserTensor> user_tensors;
};

/// shard-R-of-N.safetensors.
std::string shard_name(int rank, int ranks);

/// Metadata in the header of a file of a checkpoint.
std::map<std::string, std::string> metadata_of(const std::string& save, std::int64_t step);

/// Writes and syncs the file of this rank, whose tensors lie in the order of their element size,
/// the largest first, as readers that map files want it. Calls wrote(bytes) after every
/// MiB or so; throws what that throws, and std::system_error.
ShardReport write_shard(const Snapshot::Data& snapshot, const std::filesystem::path& folder,
                        const std::map<std::string, std::string>& metadata,
                        const std::function<void(std::int64_t)>& wrote);

/// A report as a record for rank 0, which is of the same version.
std::string serialize_report(const ShardReport& report);

/// The manifest of what all ranks wrote, given the snapshot of rank 0 and the reports of all.
Manifest manifest_of(const Snapshot::Data& snapshot, std::span<const std::string> reports);

}  // namespace shampoo::checkpoint
