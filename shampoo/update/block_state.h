// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer.h"
#include "shampoo/optimizer.h"
#include "shampoo/update/slots.h"

namespace shampoo {

/// Where the state of one owned block lies.
struct StatePlace {
  std::vector<std::int64_t> extent;
  Type value_type = Type::float32;
  int stack = 0;
  std::int64_t in_stack = 0;  ///< place in the stack
  std::int64_t flat = 0;      ///< first element in flat slots
  std::int64_t master = -1;   ///< first element in the masters, or -1
};

/// The slots of all blocks that this rank owns in one virtual group. Elementwise slots are flat:
/// block after block, stack after stack. Factors and roots lie stack by stack.
class State {
 public:
  /// `places` in flat order.
  State(Backend& backend, const Recipe& recipe, std::vector<StatePlace> places);

  /// First element of a flat slot, or null where no block has it. [backend]
  void* flat(std::string_view slot) const;
  /// For kernels::Stack::factors. [backend]
  std::vector<void*> factors(int stack) const;
  void* pair(int block, int dimension) const;

  std::vector<Slot> slots(int block) const;
  SlotView view(int block, const Slot& slot) const;
  /// The elements of a block in a flat slot, or the array that its factor and root share. [backend]
  void* data(int block, const Slot& slot) const;

  /// Copies the state of one block from another layout of the same recipe.
  void copy_block(int block, const State& from, int from_block);

  /// Bytes of all slots.
  std::int64_t bytes() const { return bytes_; }

 private:
  void allocate_factors(std::span<const std::int64_t> counts);
  void reset_roots();

  Backend& backend_;
  const Recipe& recipe_;
  std::vector<StatePlace> places_;
  std::map<std::string, kernels::Buffer, std::less<>> flat_;
  std::vector<std::vector<kernels::Buffer>> factors_;  ///< per stack and dimension
  std::int64_t bytes_ = 0;
};

}  // namespace shampoo
