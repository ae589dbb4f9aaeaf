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
#include "shampoo/checkpoint/format/safetensors_writer.h"
#include "shampoo/checkpoint/snapshot.h"

namespace shampoo::checkpoint {

/// shard-R-of-N.safetensors.
std::string shard_name(int rank, int ranks);

/// Writes a file of a checkpoint: tensors, and behind them their checksums.
class ShardWriter {
 public:
  /// Creates folder/name. Throws as SafetensorsWriter does.
  ShardWriter(const std::filesystem::path& folder, const std::string& name,
              std::vector<TensorDescription> tensors, const std::string& save, std::int64_t step);

  /// See SafetensorsWriter.
  void write(std::span<const std::byte> bytes) { writer_.write(bytes); }
  ShardFile finish();

 private:
  std::string name_;
  std::size_t tensors_;
  SafetensorsWriter writer_;
};

/// What rank 0 has to know of one rank's file. Blocks are those of the rank, in the order of the
/// manifest.
struct ShardReport {
  ShardFile file;
  std::vector<int> failures;                  ///< of each block; empty: 0
  std::vector<SavedUserTensor> user_tensors;  ///< those of the rank alone
  std::string rank_values;                    ///< JSON; empty: none
};

/// Writes and syncs the file of this rank, whose tensors lie in the order of their element size,
/// the largest first, as readers that map files want it. Calls wrote(bytes) after every
/// MiB or so; throws what that throws, and std::system_error.
ShardReport write_shard(const Snapshot::Data& snapshot, const std::filesystem::path& folder,
                        const std::string& save, std::int64_t step,
                        const std::function<void(std::int64_t)>& wrote);

/// A report as a record for rank 0, which is of the same version.
std::string serialize_report(const ShardReport& report);

/// The manifest of what all ranks wrote, given the snapshot of rank 0 and the reports of all.
Manifest manifest_of(const Snapshot::Data& snapshot, std::span<const std::string> reports);

}  // namespace shampoo::checkpoint
