// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "shampoo/checkpoint/reader.h"
#include "shampoo/state/reshard.h"

namespace shampoo::checkpoint {

/// Reads of a checkpoint what one rank needs of the state.
class StateReader {
 public:
  /// `reader` must outlive it. Throws CheckpointError for a recipe of another version.
  StateReader(const Reader& reader, Checksums checksums);

  /// A state dict for StateImport of the rank whose tensors are `own`, without contents: what the
  /// checkpoint has of them, `elements` cut as they are, tensors of other layouts whole, and of all
  /// parameters what is no tensor. Slots that the checkpoint has and `own` does not appear as
  /// tensors of no elements. Throws CheckpointError, std::system_error.
  StateDict read(const StateDict& own, const std::string& prefix) const;

 private:
  /// A tensor that is assembled from shards.
  struct Target {
    StateTensor tensor;
    SliceBuffer buffer;
  };
  /// A slot of a parameter of the checkpoint.
  struct Source {
    const SavedParameter* parameter = nullptr;  ///< null: there is none
    std::size_t slot = 0;
  };

  Source find(const StateTensor& own) const;
  void add_elements(std::span<const StateTensor* const> own, StateDict& dict) const;
  void read_block(const Source& source, const SavedBlock& block,
                  std::span<Target* const> targets) const;
  void add_whole(const StateTensor& own, StateDict& dict) const;
  void add_unknown(const StateDict& own, const std::string& prefix, StateDict& dict) const;

  const Reader& reader_;
  Checksums checksums_;
  StateDict dict_;  ///< without tensors
  std::map<std::string_view, const SavedParameter*> parameters_;
};

}  // namespace shampoo::checkpoint
