// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace shampoo::checkpoint {

/// The first line of a manifest: enough to order checkpoints without reading them. Unlike a whole
/// manifest it is not known to be intact.
struct ManifestHead {
  std::string save;
  std::int64_t sequence = 0;
  std::string parent;
  std::int64_t step = 0;
};

/// Reads at most 4 KiB. Throws CheckpointError, std::system_error, both with the path.
ManifestHead read_manifest_head(const std::filesystem::path& path);

}  // namespace shampoo::checkpoint
