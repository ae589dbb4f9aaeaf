// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/state_index.h"

namespace shampoo {

void StateIndex::add(const StateTensor& tensor, bool is_block) {
  by_box_.emplace(Key{tensor.parameter, tensor.slot, tensor.shape, tensor.box}, &tensor);
  Slot& slot = slots_[{tensor.parameter, tensor.slot}];
  slot.tensors.push_back(&tensor);
  slot.in_blocks = slot.in_blocks && is_block;
}

const StateTensor* StateIndex::find(std::string_view parameter, std::string_view slot,
                                    const TensorSlice& slice) const {
  const auto found = by_box_.find(Key{parameter, slot, slice.shape, slice.box});
  return found == by_box_.end() ? nullptr : found->second;
}

std::vector<const StateTensor*> StateIndex::overlapping(std::string_view parameter,
                                                        std::string_view slot,
                                                        const TensorSlice& block) const {
  const auto found = slots_.find({parameter, slot});
  if (found == slots_.end()) return {};
  std::vector<const StateTensor*> parts;
  if (found->second.in_blocks) {
    if (const StateTensor* const same = find(parameter, slot, block)) parts.push_back(same);
    return parts;
  }
  for (const StateTensor* const tensor : found->second.tensors)
    if (may_overlap({tensor->shape, tensor->box}, block)) parts.push_back(tensor);
  return parts;
}

}  // namespace shampoo
