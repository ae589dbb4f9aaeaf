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

/// The last tensor of a file: U8 [n, 8], the XXH3 of each of the n tensors before it, in the order
/// of their data, the lowest byte first.
inline constexpr std::string_view checksums_name = "xxh3";

/// A tensor of a file, as the manifest has it.
struct TensorShard {
  std::string key;  ///< name of the tensor in the file
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;  ///< shape in the file
  std::size_t file = 0;             ///< index in the manifest's files

  bool operator==(const TensorShard&) const = default;
};

/// The name and the shape in its file of a part of the state.
std::string key_of(const StateTensor& tensor);
std::vector<std::int64_t> shape_of(const StateTensor& tensor);

/// The state tensor of a box of a parameter, without contents.
StateTensor state_tensor(const SavedParameter& parameter, const SavedSlot& slot, grouping::Box box);
TensorShard shard_of(const StateTensor& tensor, std::size_t file);
TensorShard shard_of(const SavedUserTensor& tensor);

}  // namespace shampoo::checkpoint
