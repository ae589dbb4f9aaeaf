// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/state_values.h"
#include "shampoo/state/reshard.h"

namespace shampoo::checkpoint {

/// Reads of a checkpoint what one rank needs.
class StateReader {
 public:
  /// `reader` must outlive it. Throws CheckpointError.
  StateReader(const Reader& reader, Checksums checksums);

  /// A state dict for StateLoad of the rank whose tensors are `own`, without contents: what the
  /// checkpoint has of them, cut as they are, and of all parameters what is no tensor. Slots that
  /// the checkpoint has and `own` does not appear as tensors of no elements. Throws
  /// CheckpointError, std::system_error.
  StateDict read(const StateDict& own, const std::string& prefix) const;

  /// The elements of a whole tensor of the manifest. Throws as read() does.
  void read_whole(const SavedTensor& tensor, std::span<std::byte> bytes) const;
  /// Null where the manifest has none of this name.
  const SavedTensor* find(const std::string& name) const;

 private:
  /// A tensor that is put together from pieces.
  struct Target {
    StateTensor tensor;
    Assembly assembly;
  };

  Type type_of_tensor(const SavedTensor& tensor) const;
  void read_elements(const SavedTensor& saved, std::vector<Target>& targets) const;
  void read_piece(const SavedTensor& saved, const SavedPiece& piece,
                  std::span<Target* const> targets) const;
  void add_elements(std::span<const StateTensor* const> own, StateDict& dict) const;
  void add_triangle(const StateTensor& own, StateDict& dict) const;
  void add_unknown(const StateDict& own, const std::string& prefix, StateDict& dict) const;
  const Box* saved_box(const StateTensor& own) const;

  const Reader& reader_;
  Checksums checksums_;
  SavedState saved_;
  std::map<std::string_view, const SavedTensor*> tensors_;
};

}  // namespace shampoo::checkpoint
