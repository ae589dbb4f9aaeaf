// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shampoo/state/reshard.h"
#include "shampoo/state_dict.h"

namespace shampoo {

/// Finds tensors of a state dict, which must outlive it.
class StateIndex {
 public:
  /// `is_block`: the tensor's box is one of the blocks that will be asked for.
  void add(const StateTensor& tensor, bool is_block);

  /// The tensor of exactly this slice; null: there is none.
  const StateTensor* find(std::string_view parameter, std::string_view slot,
                          const TensorSlice& slice) const;
  /// Tensors that may have elements in common with the slice of a block.
  std::vector<const StateTensor*> overlapping(std::string_view parameter, std::string_view slot,
                                              const TensorSlice& block) const;

 private:
  struct Key {
    std::string_view parameter, slot;
    const grouping::Shape& shape;
    const grouping::Box& box;

    bool operator<(const Key& other) const {
      return std::tie(parameter, slot, shape, box) <
             std::tie(other.parameter, other.slot, other.shape, other.box);
    }
  };
  struct Slot {
    std::vector<const StateTensor*> tensors;
    bool in_blocks = true;  ///< each of the tensors is a block
  };

  std::map<Key, const StateTensor*> by_box_;
  std::map<std::pair<std::string_view, std::string_view>, Slot> slots_;
};

}  // namespace shampoo
