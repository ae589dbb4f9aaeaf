// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/mode_chain.h"

/// Launches of products along the dimensions of blocks.
namespace shampoo::kernels::cuda {

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

/// Flat arrays of a chain, and memory for dense roots. `from` and `to` may be the same.
struct ModeMemory {
  const void* from = nullptr;
  void* scratch = nullptr;
  void* to = nullptr;
  void* roots = nullptr;  ///< dense_root_bytes() of every stack
  /// Of `from`, per block that takes part; read where operands are narrowed.
  const double* squared_norms = nullptr;
};

/// True if some stack's operands are narrowed: results then have OperandScales.
bool has_operand_scales(std::span<const Stack> stacks, const ModeMatrices& matrices,
                        Type arithmetic);

/// to <- products of `from` with the matrices of every dimension, of blocks that take part; others
/// may have anything there afterwards.
void run_mode_chains(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
                     const ModeMatrices& matrices, const ModeMemory& memory);

/// Elements <- their products with the scales of every dimension, in place.
void scale_in_eigenbasis(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
                         const ModeMatrices& which, void* elements);

/// Direction <- the phase's dense memory, for preconditioned blocks, divided by their OperandScales
/// if it is `scaled`; and their squared norms, unless `norms` is null.
void take_directions(Device& device, const ProductPhase& phase, void* direction, double* norms,
                     bool scaled = false);
/// The norms alone.
void norm_directions(Device& device, const ProductPhase& phase, void* direction, double* norms);

}  // namespace shampoo::kernels::cuda
