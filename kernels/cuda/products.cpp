// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/half_gram.h"
#include "kernels/cuda/gemm/mode_product.h"
#include "kernels/cuda/gemm/tile_class.h"

namespace shampoo::kernels::cuda {

namespace {

ModeShape mode_shape(std::span<const std::int64_t> extent, std::size_t k) {
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

/// The contractions of one stack: dimension after dimension, to and fro between the direction and
/// dense memory, with a copy in front where their number is odd.
class ModeChain {
 public:
  explicit ModeChain(const Stack& stack) : stack_(stack) {
    for (const void* const roots : stack.factors) contractions_ += roots != nullptr;
    copies_ = contractions_ % 2;
  }

  int length() const { return contractions_ + copies_; }

  ModeTask task(int step) const {
    ModeTask task;
    task.first_block = stack_.first_block;
    task.from_dense = step % 2 == 1;
    const std::size_t k = step < copies_ ? 0 : dimension(step - copies_);
    task.shape = mode_shape(stack_.extent, k);
    task.roots = step < copies_ ? nullptr : stack_.factors[k];
    return task;
  }

 private:
  std::size_t dimension(int number) const {
    std::size_t k = 0;
    for (;; ++k)
      if (stack_.factors[k] != nullptr && number-- == 0) return k;
  }

  const Stack& stack_;
  int contractions_ = 0;
  int copies_ = 0;
};

/// Whether a task goes through the tiles of a class; then its number of tiles.
template <typename Class>
bool takes(Type arithmetic, ModeTask& task) {
  const ModePlane plane(task.shape);
  const bool copies = task.roots == nullptr;
  task.tiles =
      copies ? ceiling(task.shape.elements(), Class::tile * Class::tile) : plane.tiles(Class::tile);
  return Class::has(arithmetic, copies ? 0 : std::min(plane.lines, plane.columns));
}

}  // namespace

void DeviceBackend::accumulate_factors(const PassContext& phase, std::span<const Stack> stacks,
                                       std::span<const Selection>, const void* masters) {
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  with_real(arithmetic, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    device_->launch(phase.elements.tile_count,
                    GatherGradients<Real>{p, static_cast<const float*>(masters)});
  });
  for_each_tile_class([&]<typename Class>(Class) {
    constexpr int tile = Class::tile;
    TaskQueue queue(std::type_identity<GramTask>(), [&](const TaskList<GramTask>& list) {
      device_->launch(list.blocks, Gram<typename Class::real, tile>{p, list});
      if constexpr (tile == HalfGram::side) device_->launch(list.blocks, HalfGram{p, list});
    });
    for (const Stack& stack : stacks)
      for (std::size_t k = 0; k < stack.extent.size(); ++k) {
        if (stack.factors[k] == nullptr || !Class::has(arithmetic, stack.extent[k])) continue;
        queue.add(
            {lower_tiles(stack.extent[k], tile), stack.first_block, mode_shape(stack.extent, k),
             static_cast<int>(stack.extent.size()), static_cast<int>(k), stack.factors[k]},
            stack.count);
      }
    queue.flush();
  });
}

void DeviceBackend::precondition(const PassContext& phase, std::span<const Stack> stacks,
                                 std::span<const Selection>, void* direction,
                                 double* direction_norms) {
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  int steps = 0;
  for (const Stack& stack : stacks) steps = std::max(steps, ModeChain(stack).length());
  for (int step = 0; step < steps; ++step)
    for_each_tile_class([&]<typename Class>(Class) {
      TaskQueue queue(std::type_identity<ModeTask>(), [&](const TaskList<ModeTask>& list) {
        device_->launch(list.blocks,
                        ModeProduct<typename Class::real, Class::tile>{p, direction, list});
      });
      for (const Stack& stack : stacks) {
        const ModeChain chain(stack);
        if (step >= chain.length()) continue;
        ModeTask task = chain.task(step);
        if (takes<Class>(arithmetic, task)) queue.add(task, stack.count);
      }
      queue.flush();
    });
  if (direction_norms == nullptr) return;
  with_real(arithmetic, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    device_->launch(phase.elements.tile_count, DirectionNorms<Real>{p, direction});
  });
  device_->launch(phase.elements.block_count, SumDirectionNorms{p, direction_norms});
}

}  // namespace shampoo::kernels::cuda
