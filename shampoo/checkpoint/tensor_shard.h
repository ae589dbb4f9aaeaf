// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::checkpoint {

/// Prefixes of the names of tensors in files.
inline constexpr std::string_view state_prefix = "optimizer/", user_prefix = "user/";

/// A tensor of a file, as the manifest has it.
struct TensorShard {
  std::string key;  ///< name of the tensor in the file
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;  ///< shape in the file
  std::size_t file = 0;             ///< index in the manifest's files
  std::uint64_t checksum = 0;       ///< XXH3 of its bytes

  bool operator==(const TensorShard&) const = default;
};

/// The name and the shape in its file of a part of the state.
std::string key_of(const StateTensor& tensor);
std::vector<std::int64_t> shape_of(const StateTensor& tensor);

/// The state tensor of a block, without contents. Of a valid manifest.
StateTensor state_tensor(const SavedParameter& parameter, const SavedBlock& block,
                         std::size_t slot);
TensorShard shard_of(const SavedParameter& parameter, const SavedBlock& block, std::size_t slot);
TensorShard shard_of(const SavedUserTensor& tensor);

/// Calls visit(shard) for every tensor of a valid manifest.
template <typename Visit>
void for_each_shard(const Manifest& manifest, const Visit& visit) {
  for (const SavedParameter& parameter : manifest.parameters)
    for (const SavedBlock& block : parameter.blocks)
      for (std::size_t slot = 0; slot < parameter.slots.size(); ++slot)
        visit(shard_of(parameter, block, slot));
  for (const SavedUserTensor& tensor : manifest.user_tensors) visit(shard_of(tensor));
}

}  // namespace shampoo::checkpoint
