// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shampoo/checkpoint/reader.h"
#include "shampoo/state/reshard.h"

namespace shampoo::checkpoint {

/// Reads of a checkpoint what one rank needs of the state.
class StateReader {
 public:
  /// `reader` must outlive it. `rename`: see LoadOptions. `optimizer`: whose state, by its name,
  /// which the checkpoint has; empty: of all parameters.
  StateReader(const Reader& reader, Checksums checksums,
              const std::function<std::string(const std::string&)>& rename = {},
              const std::string& optimizer = {});

  /// A state dict for StateImport of the rank whose state is `own`, without contents: what the
  /// checkpoint has of its tensors and blocks, `elements` cut as they are, and of all parameters
  /// what is no tensor. Matrices and vectors are those of the same block; of a parameter that is
  /// cut differently, one block's without its contents, which fit nowhere. Slots that the
  /// checkpoint has and `own` does not appear as tensors of no elements. Throws CheckpointError,
  /// std::system_error.
  StateDict read(const StateDict& own, const std::string& prefix) const;

  /// What the manifest has of a parameter, under this name and without blocks.
  ParameterState describe(const std::string& name, const SavedParameter& saved) const;

 private:
  /// A tensor that is assembled from shards.
  struct Target {
    StateTensor tensor;
    SliceBuffer buffer;
  };
  /// A slot of a parameter of the checkpoint.
  struct Source {
    const SavedParameter* parameter = nullptr;  ///< null: there is none
    const SavedSlot* slot = nullptr;
  };

  Source find(const StateTensor& own) const;
  void add_elements(std::span<const StateTensor* const> own, StateDict& dict) const;
  std::vector<std::int64_t> blocks_of(const SavedParameter& saved,
                                      std::span<const Target> targets) const;
  void read_block(const Source& source, std::int64_t block, std::span<Target* const> targets) const;
  void add_whole(std::span<const StateTensor* const> own, StateDict& dict) const;
  void add_unknown(const StateDict& own, const std::string& prefix, StateDict& dict) const;

  const Reader& reader_;
  Checksums checksums_;
  std::string arithmetic_;
  Progress progress_;
  /// By the optimizer's names.
  std::vector<std::pair<std::string, const SavedParameter*>> named_;
  std::map<std::string_view, const SavedParameter*> parameters_;
};

}  // namespace shampoo::checkpoint
