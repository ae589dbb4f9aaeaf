// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/facets.h"
#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/reader.h"

namespace shampoo::checkpoint {

/// The user state of a checkpoint on its way to the trainer. Up to 64 MiB of tensors are kept in
/// host memory from their verification on; larger states are read twice.
class UserStateLoad {
 public:
  /// A rank of so many.
  struct Place {
    int rank = 0, ranks = 1;
  };

  /// Reads it, and keeps or only verifies its tensors. `reader` must outlive it. Throws
  /// std::invalid_argument for a user state that does not fit, unless the options accept that, with
  /// a line for each tensor and value; CheckpointError, std::system_error.
  UserStateLoad(const Reader& reader, const UserState& user, const CheckpointOptions& options,
                Place place);

  /// Waits. Throws CheckpointError, std::system_error for a disk that fails now: some tensors are
  /// then written.
  void write_tensors(kernels::Backend& backend, const UserState& user) const;
  void replace_values(UserState& user) const;

  const std::vector<std::string>& missing() const { return missing_; }
  const std::vector<std::string>& unexpected() const { return unexpected_; }

 private:
  /// A tensor of the user state that the checkpoint has.
  struct Source {
    std::size_t index;  ///< in the user state
    TensorShard shard;
    std::vector<std::byte> bytes = {};  ///< empty: to be read again
  };

  void fail(const std::string& name, const std::string& what);
  bool has_ranks(const std::string& name);
  void match_tensor(const UserTensor& tensor, std::size_t index);
  void match_values(const UserValues& saved, const UserValues& now, UserValues& values);
  void find_unexpected(const UserState& user);
  void throw_faults(bool strict) const;
  void verify();
  void upload(kernels::Backend& backend, const Source& source, const UserTensor& tensor) const;

  const Reader& reader_;
  Checksums checksums_;
  OtherRanks other_ranks_;
  Place place_;
  std::vector<Source> sources_;
  UserValues values_, rank_values_;
  std::vector<std::string> faults_, missing_, unexpected_;
  std::vector<std::string> kept_;  ///< by OtherRanks::keep
};

}  // namespace shampoo::checkpoint
