// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kernels/facets.h"
#include "shampoo/checkpoint/reader.h"
#include "shampoo/user_state.h"

namespace shampoo::checkpoint {

/// The user state of a checkpoint on its way to the trainer, in host memory.
class UserStateLoad {
 public:
  /// Reads it. Throws std::invalid_argument for a user state that does not fit, unless `strict` is
  /// off for what is missing or unexpected; CheckpointError, std::system_error.
  UserStateLoad(const Reader& reader, Checksums checksums, const UserState& user, bool strict);

  /// Writes tensors and values. Waits.
  void replace(kernels::Backend& backend, UserState& user) const;

  const std::vector<std::string>& missing() const { return missing_; }
  const std::vector<std::string>& unexpected() const { return unexpected_; }

 private:
  void read_tensor(const Reader& reader, Checksums checksums, const UserTensor& tensor,
                   std::size_t index);
  void read_value(const Manifest& manifest, const std::string& name, const UserValue& now);
  void find_unexpected(const Manifest& manifest, const UserState& user);

  std::map<std::size_t, std::vector<std::byte>> bytes_;  ///< by index in the user state
  std::map<std::string, UserValue> values_;
  std::vector<std::string> missing_, unexpected_;
};

}  // namespace shampoo::checkpoint
