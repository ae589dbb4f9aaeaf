// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/mode_tasks.h"

#include <algorithm>

#include "kernels/cuda/gemm/half_operands.h"
#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/gemm/vector_product.h"

namespace shampoo::kernels::cuda {

namespace {

void* at(const void* memory, std::size_t bytes) {
  return const_cast<char*>(static_cast<const char*>(memory)) + bytes;
}

/// The steps of the chains of all stacks, from array to array.
class ModeRun {
 public:
  ModeRun(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
          const ModeMatrices& matrices, const ModeMemory& memory)
      : device_(device), phase_(phase), stacks_(stacks), matrices_(matrices), memory_(memory) {}

  int steps() const {
    int most = 0;
    for (const Stack& stack : stacks_) most = std::max(most, ModeChain(stack, matrices_).length());
    return most;
  }

  /// Of chains without a step, and of those whose first step would write what it reads.
  void copy_elements() const {
    for_each_stack([&](const Stack& stack, const ModeChain& chain, std::size_t flat, std::size_t) {
      if (stack.count == 0 || !copies(chain)) return;
      void* const to = chain.length() == 0 ? memory_.to : memory_.scratch;
      const std::int64_t last = mode_shape(stack.extent, 0).elements() - stack.stride;
      device_.copy(at(to, flat), at(memory_.from, flat), bytes_of(stack, last));
    });
  }

  /// Scales of all operands of a step; in the first, those of blocks without operands of float16
  /// are 1.
  void scale_operands(int step) const {
    TaskQueue queue(std::type_identity<ScaleTask>(), [&](const TaskList<ScaleTask>& list) {
      device_.launch(list.blocks, ScaleOperands{phase_, list, memory_.squared_norms, step == 0});
    });
    for_each_stack([&](const Stack& stack, const ModeChain& chain, std::size_t, std::size_t) {
      ScaleTask task{.first_block = stack.first_block, .layout = stack.layout};
      if (chain.is_by_library() && step < chain.length()) {
        const std::size_t k = chain.dimension(step);
        task.side = stack.extent[k];
        task.arrays = stack.factors[k];
      }
      if (step == 0 || task.arrays != nullptr) queue.add(task, stack.count);
    });
    queue.flush();
  }

  void narrow_directions() const {
    TaskQueue queue(std::type_identity<NarrowTask>(), [&](const TaskList<NarrowTask>& list) {
      device_.launch(list.blocks,
                     NarrowDirections{phase_, list, memory_.from, memory_.squared_norms});
    });
    for_each_stack([&](const Stack& stack, const ModeChain& chain, std::size_t, std::size_t) {
      if (!chain.is_by_library()) return;
      const std::int64_t elements = mode_shape(stack.extent, 0).elements();
      queue.add({ceiling(elements, NarrowDirections::tile), stack.first_block, elements,
                 target(chain, -1)},
                stack.count);
    });
    queue.flush();
  }

  template <typename Dense>
  void unpack_roots(int step) const {
    TaskQueue queue(std::type_identity<RootTask>(), [&](const TaskList<RootTask>& list) {
      device_.launch(list.blocks, UnpackRoots<Dense>{phase_, list, matrices_.accumulates});
    });
    for_each_stack([&](const Stack& stack, const ModeChain& chain, std::size_t, std::size_t roots) {
      if (step >= chain.length() || !chain.is_by_library()) return;
      const std::size_t k = chain.dimension(step);
      queue.add({lower_tiles(stack.extent[k], mirrored_side), stack.first_block, stack.extent[k],
                 stack.factors[k], stack.layout, at(memory_.roots, roots)},
                stack.count);
    });
    queue.flush();
  }

  void multiply(int step) const {
    for_each_stack([&](const Stack& stack, const ModeChain& chain, std::size_t flat,
                       std::size_t roots) {
      if (step >= chain.length() || !chain.is_by_library()) return;
      const void* const dense =
          matrices_.is_basis ? stack.bases[chain.dimension(step)] : at(memory_.roots, roots);
      device_.multiply(chain.product(step, phase_.elements.arithmetic, dense,
                                     at(source(chain, step), flat), at(target(chain, step), flat)));
    });
  }

  template <typename Real>
  void multiply_by_kernel(int step) const {
    TaskQueue queue(std::type_identity<ModeTask>(), [&](const TaskList<ModeTask>& list) {
      device_.launch(list.blocks, ModeProduct<Real>{phase_, list, matrices_.accumulates});
    });
    TaskQueue vectors(std::type_identity<ModeTask>(), [&](const TaskList<ModeTask>& list) {
      device_.launch(list.blocks, VectorProduct<Real>{phase_, list, matrices_.accumulates});
    });
    for_each_stack([&](const Stack& stack, const ModeChain& chain, std::size_t, std::size_t) {
      if (step >= chain.length() || chain.is_by_library()) return;
      const ModeTask task = chain.task(step, source(chain, step), target(chain, step));
      if (task.shape.elements() == task.shape.side)
        vectors.add(task, stack.count);
      else
        queue.add(task, stack.count);
    });
    queue.flush();
    vectors.flush();
  }

 private:
  /// body(stack, chain, bytes before its elements, bytes before its dense roots)
  template <typename Body>
  void for_each_stack(const Body& body) const {
    std::size_t flat = 0, roots = 0;
    for (const Stack& stack : stacks_) {
      body(stack, ModeChain(stack, matrices_), flat, roots);
      flat += bytes_of(stack);
      roots += dense_root_bytes(stack, phase_.elements.arithmetic);
    }
  }
  std::size_t bytes_of(const Stack& stack, std::int64_t more = 0) const {
    return static_cast<std::size_t>(stack.count * stack.stride + more) *
           size_of(phase_.elements.arithmetic);
  }
  bool copies(const ModeChain& chain) const {
    return memory_.from == memory_.to ? chain.length() % 2 == 1 : chain.length() == 0;
  }
  /// Step -1 narrows.
  void* target(const ModeChain& chain, int step) const {
    return (chain.length() - step) % 2 == 1 ? memory_.to : memory_.scratch;
  }
  const void* source(const ModeChain& chain, int step) const {
    const bool narrows = chain.is_by_library() && matrices_.narrows(phase_.elements.arithmetic);
    if (step > 0 || narrows) return target(chain, step - 1);
    return copies(chain) ? memory_.scratch : memory_.from;
  }

  Device& device_;
  const ProductPhase& phase_;
  std::span<const Stack> stacks_;
  const ModeMatrices& matrices_;
  const ModeMemory& memory_;
};

}  // namespace

bool has_operand_scales(std::span<const Stack> stacks, const ModeMatrices& matrices,
                        Type arithmetic) {
  return matrices.narrows(arithmetic) && std::ranges::any_of(stacks, [&](const Stack& stack) {
           return ModeChain(stack, matrices).is_by_library();
         });
}

void run_mode_chains(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
                     const ModeMatrices& matrices, const ModeMemory& memory) {
  const ModeRun run(device, phase, stacks, matrices, memory);
  const bool narrows = has_operand_scales(stacks, matrices, phase.elements.arithmetic);
  run.copy_elements();
  if (narrows) run.narrow_directions();
  const int steps = run.steps();
  for (int step = 0; step < steps; ++step)
    with_real(phase.elements.arithmetic, [&](auto* tag) {
      using Real = Element<decltype(tag)>;
      if (narrows) {
        run.scale_operands(step);
        run.template unpack_roots<Float16>(step);
      } else if (!matrices.is_basis) {
        run.template unpack_roots<Real>(step);
      }
      run.multiply(step);
      run.template multiply_by_kernel<Real>(step);
    });
}

namespace {

void launch_directions(Device& device, const ProductPhase& phase, void* direction, bool moves,
                       bool scaled, double* norms) {
  with_real(phase.elements.arithmetic, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    device.launch(phase.elements.tile_count, TakeDirections<Real>{phase, direction, moves, scaled});
  });
  if (norms != nullptr) device.launch(phase.elements.block_count, SumDirectionNorms{phase, norms});
}

}  // namespace

void take_directions(Device& device, const ProductPhase& phase, void* direction, double* norms,
                     bool scaled) {
  launch_directions(device, phase, direction, true, scaled, norms);
}

void norm_directions(Device& device, const ProductPhase& phase, void* direction, double* norms) {
  if (norms != nullptr) launch_directions(device, phase, direction, false, false, norms);
}

}  // namespace shampoo::kernels::cuda
