// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/mode_tasks.h"

#include "kernels/cuda/gemm/tile_class.h"

namespace shampoo::kernels::cuda {

namespace {

/// The contractions of one stack: dimension after dimension, to and fro between the elements and
/// dense memory, with a copy in front where their number is odd.
class ModeChain {
 public:
  ModeChain(const Stack& stack, const ModeMatrices& matrices)
      : stack_(stack), matrices_(matrices), arrays_(stack.*matrices.arrays) {
    for (std::size_t k = 0; k < arrays_.size(); ++k) contractions_ += takes_part(k);
    copies_ = contractions_ % 2;
  }

  int length() const { return contractions_ + copies_; }

  ModeTask task(int step) const {
    ModeTask task;
    task.first_block = stack_.first_block;
    task.from_dense = step % 2 == 1;
    task.is_basis = matrices_.is_basis;
    task.transposed = matrices_.transposed;
    const std::size_t k = step < copies_ ? 0 : dimension(step - copies_);
    task.shape = mode_shape(stack_.extent, k);
    task.matrices = step < copies_ ? nullptr : arrays_[k];
    return task;
  }

 private:
  std::size_t dimension(int number) const {
    std::size_t k = 0;
    for (;; ++k)
      if (takes_part(k) && number-- == 0) return k;
  }
  bool takes_part(std::size_t k) const { return arrays_[k] != nullptr && k != matrices_.except; }

  const Stack& stack_;
  ModeMatrices matrices_;
  const std::vector<void*>& arrays_;
  int contractions_ = 0;
  int copies_ = 0;
};

/// Whether a task goes through the tiles of a class; then its number of tiles.
template <typename Class>
bool takes(Type arithmetic, ModeTask& task) {
  const ModePlane plane(task.shape);
  const bool copies = task.matrices == nullptr;
  task.tiles =
      copies ? ceiling(task.shape.elements(), Class::tile * Class::tile) : plane.tiles(Class::tile);
  return Class::has(arithmetic, copies ? 0 : std::min(plane.lines, plane.columns));
}

}  // namespace

void run_mode_chains(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
                     const ModeMatrices& matrices, void* elements) {
  int steps = 0;
  for (const Stack& stack : stacks) steps = std::max(steps, ModeChain(stack, matrices).length());
  for (int step = 0; step < steps; ++step)
    for_each_tile_class([&]<typename Class>(Class) {
      TaskQueue queue(std::type_identity<ModeTask>(), [&](const TaskList<ModeTask>& list) {
        device.launch(list.blocks, ModeProduct<typename Class::real, Class::tile>{
                                       phase, elements, list, matrices.accumulates});
      });
      for (const Stack& stack : stacks) {
        const ModeChain chain(stack, matrices);
        if (step >= chain.length()) continue;
        ModeTask task = chain.task(step);
        if (takes<Class>(phase.elements.arithmetic, task)) queue.add(task, stack.count);
      }
      queue.flush();
    });
}

void norm_directions(Device& device, const ProductPhase& phase, const void* direction,
                     double* norms) {
  if (norms == nullptr) return;
  with_real(phase.elements.arithmetic, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    device.launch(phase.elements.tile_count, DirectionNorms<Real>{phase, direction});
  });
  device.launch(phase.elements.block_count, SumDirectionNorms{phase, norms});
}

}  // namespace shampoo::kernels::cuda
