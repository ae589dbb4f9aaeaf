// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/gemm/mode_product.h"

/// Launches of products along the dimensions of blocks.
namespace shampoo::kernels::cuda {

inline ModeShape mode_shape(std::span<const std::int64_t> extent, std::size_t k) {
  ModeShape shape;
  for (std::size_t i = 0; i < extent.size(); ++i)
    (i < k ? shape.before : i == k ? shape.side : shape.after) *= extent[i];
  return shape;
}

/// Tasks that go into one launch, or more where there are too many.
template <typename Task, typename Launch>
class TaskQueue {
 public:
  TaskQueue(std::type_identity<Task>, Launch launch) : launch_(std::move(launch)) {}

  void add(const Task& task, std::int64_t members) {
    if (list_.count == TaskList<Task>::capacity) flush();
    list_.add(task, members);
  }
  void flush() {
    if (list_.count > 0) launch_(list_);
    list_.count = 0;
    list_.blocks = 0;
  }

 private:
  Launch launch_;
  TaskList<Task> list_;
};

/// Products of all blocks with one matrix per dimension.
struct ModeMatrices {
  std::vector<void*> Stack::*arrays = &Stack::factors;  ///< roots of pair arrays, or bases
  bool is_basis = false;
  bool transposed = false;   ///< of bases
  std::size_t except = -1;   ///< a dimension that is left alone
  bool accumulates = false;  ///< for all present blocks; otherwise for preconditioned ones
};

/// Elements <- their products with the matrices of every dimension, in place. The phase's dense
/// memory is scratch.
void run_mode_chains(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
                     const ModeMatrices& matrices, void* elements);

/// Elements <- their products with the scales of every dimension, in place.
void scale_in_eigenbasis(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
                         const ModeMatrices& which, void* elements);

/// Squared norms of preconditioned blocks, unless `norms` is null.
void norm_directions(Device& device, const ProductPhase& phase, const void* direction,
                     double* norms);

}  // namespace shampoo::kernels::cuda
