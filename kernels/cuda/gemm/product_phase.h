// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/share.h"
#include "kernels/views.h"

namespace shampoo::kernels::cuda {

/// A PassContext, and dense memory as long as the flat slots.
struct ProductPhase : PassContext {
  void* dense = nullptr;

  ProductPhase(const PassContext& phase, void* memory) : PassContext(phase), dense(memory) {}

  /// True if the factors of a block are updated in this step.
  SHAMPOO_BOTH bool accumulates(std::int64_t block) const {
    return *proceed != 0 && modes[block] != Mode::absent;
  }
  /// True if roots are applied to a block in this step.
  SHAMPOO_BOTH bool preconditions(std::int64_t block) const {
    return *proceed != 0 && modes[block] == Mode::preconditioned;
  }
  /// True if statistics read the gradient of a block in place; otherwise G is gathered.
  SHAMPOO_BOTH bool reads_in_place(std::int64_t block) const {
    return elements.blocks[block].regular && coefficients[block].l2 == 0 && !limits_gradients();
  }
  /// True if, in float32 and for long sides, they come from matrix units: those of a gradient of 16
  /// bits that is read where it is.
  SHAMPOO_BOTH bool is_on_matrix_units(std::int64_t block) const {
    const Type type = elements.tensors.gradient_types[elements.blocks[block].tensor];
    return reads_in_place(block) && (type == Type::bfloat16 || type == Type::float16);
  }
};

/// One dimension of all blocks of a stack: before x side x after, row-major.
struct ModeShape {
  std::int64_t before = 1, side = 1, after = 1;

  SHAMPOO_BOTH std::int64_t elements() const { return before * side * after; }
};

/// Work of a launch, by value: `blocks` blocks of threads for each member of every task.
template <typename Task>
struct TaskList {
  static constexpr int capacity = 128;

  struct WorkItem {
    const Task& task;
    std::int64_t member;
    std::int64_t tile;
  };

  Task tasks[capacity];
  std::int64_t first[capacity];  ///< a task's first block of threads
  int count = 0;
  std::int64_t blocks = 0;

  void add(const Task& task, std::int64_t members) {
    tasks[count] = task;
    first[count] = blocks;
    blocks += members * task.tiles;
    ++count;
  }

  SHAMPOO_BOTH WorkItem item(std::int64_t block) const {
    const int t = share_with(block, first, count);
    const std::int64_t within = block - first[t];
    return {tasks[t], within / tasks[t].tiles, within % tasks[t].tiles};
  }
};

}  // namespace shampoo::kernels::cuda
