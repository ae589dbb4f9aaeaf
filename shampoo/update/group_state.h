// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer.h"
#include "shampoo/state/packed_triangle.h"
#include "shampoo/state_dict.h"
#include "shampoo/update/slots.h"

namespace shampoo {

/// Position of the state of one owned block.
struct BlockPlacement {
  std::vector<std::int64_t> extent;
  Type value_type = Type::float32;
  int stack = 0;
  std::int64_t in_stack = 0;  ///< index in the stack
  std::int64_t flat = 0;      ///< first element in flat slots
  std::int64_t master = -1;   ///< first element in the masters, or -1
};

/// Storage of a slot of a block with this extent in its array. Not for elements.
SlotStorage storage_of(const Slot& slot, std::span<const std::int64_t> extent);

/// The slots of all blocks that this rank owns in one virtual group. Elementwise slots are flat:
/// block after block, stack after stack. Matrices and vectors lie stack by stack, back to back.
class GroupState {
 public:
  /// `placements` in flat order. Slots start with their initial values. Waits for the backend.
  GroupState(kernels::Backend& backend, const Recipe& recipe,
             std::vector<BlockPlacement> placements);

  /// First element of an elementwise slot, or null where no block has it. [backend]
  void* flat(std::string_view slot) const;
  /// First array of a matrix or vector slot in a stack, or null where it has none. [backend]
  void* arrays(int stack, std::string_view slot) const;

  std::vector<Slot> slots(int block) const;
  /// The elements of a block in an elementwise slot, or its array in another one. [backend]
  void* data(int block, const Slot& slot) const;
  SlotView view(int block, const Slot& slot) const;

  /// Copies the state of one block from another layout of the same recipe. Queued.
  void copy_block(int block, const GroupState& from, int from_block);

  /// Bytes of all slots.
  std::int64_t bytes() const { return bytes_; }

 private:
  using Arrays = std::map<std::string, kernels::Buffer, std::less<>>;

  void allocate();
  void write_identities();
  void write_constants();

  kernels::Backend& backend_;
  const Recipe& recipe_;
  std::vector<BlockPlacement> placements_;
  Arrays flat_;                 ///< by slot
  std::vector<Arrays> stacks_;  ///< per stack, by slot with an array of its own
  std::int64_t bytes_ = 0;
};

}  // namespace shampoo
