// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <stdexcept>
#include <string>

#include "kernels/cpu/gather_gradient.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/root_products.h"
#include "kernels/cpu/tile_work.h"
#include "kernels/cpu/with_real.h"
#include "kernels/rules/arithmetic.h"

namespace shampoo::kernels {

namespace {

/// Elements of a block in a flat slot.
template <typename Real>
RowsAhead slot_ahead(const void* slot, const Block& block) {
  return slot == nullptr ? RowsAhead{}
                         : ahead(static_cast<const Real*>(slot) + block.flat, block.elements);
}

/// W of a block, where its update reads it.
RowsAhead weights_ahead(const PassContext& context, std::int64_t index, const UpdatePass& update) {
  const Block& block = context.elements.blocks[index];
  if (block.master >= 0)
    return ahead(static_cast<const float*>(update.masters) + block.master, block.elements);
  const bool reads = update.segment == nullptr || block.is_value ||
                     update.averaging == AveragingRule::iterate ||
                     context.coefficients[index].decay != 0;
  const Tile& first = context.elements.tiles[block.first_tile];
  if (!reads || first.value_column != 1) return {};
  const Tensors& tensors = context.elements.tensors;
  const auto bytes = static_cast<std::int64_t>(size_of(tensors.value_types[block.tensor]));
  const char* const data =
      static_cast<const char*>(tensors.values[block.tensor]) + first.value * bytes;
  if (first.rows == 1) return {data, 1, block.elements * bytes, 0};
  return {data, block.elements / first.columns, first.columns * bytes, first.value_row * bytes};
}

/// filter(), precondition() and update() of one block after another.
template <typename Real>
struct BlockPasses {
  const PassContext& context;
  const VectorLevel& level;
  const GradientPass& gradients;
  std::span<const Stack> stacks;
  std::span<const Selection> present;
  double* direction_norms;
  const UpdatePass& update;

  void operator()(const Schedule::Task& task, const TasksAhead& tasks_ahead,
                  Scratch& scratch) const {
    const VectorKernels<Real>& vector = level.in<Real>();
    const std::int64_t b = block_of(task);
    const Block& block = context.elements.blocks[b];
    Real* const p = scratch.take<Real>(block.elements);

    for_each_tile(block, gradients.masters, p, [&](std::int32_t t, const Work& work, Real* at) {
      context.elements.partials[t] = vector.filter(work, gradients, grafting(), at).grafting;
    });
    if (context.modes[b] == Mode::preconditioned) {
      if (grafting() != nullptr)
        gradients.grafting_norms[b] = sum_of_tiles(block, context.elements.partials);
      RootProducts<Real>(vector, stacks[task.group], index_of(task), scratch)
          .apply(p, fetched_meanwhile(b, tasks_ahead.companion), read_by(tasks_ahead.next));
      direction_norms[b] = vector.squared_norm(p, block.elements);
    }
    for_each_tile(block, update.masters, p, [&](std::int32_t, const Work& work, const Real* at) {
      vector.update(work, update, at);
    });
  }

 private:
  const ElementwiseDirection* grafting() const {
    return gradients.grafting ? &*gradients.grafting : nullptr;
  }
  std::int64_t index_of(const Schedule::Task& task) const {
    return present[task.group].blocks[task.member];
  }
  std::int64_t block_of(const Schedule::Task& task) const {
    return stacks[task.group].first_block + index_of(task);
  }

  /// body(index of the tile, work, its part of P)
  template <typename Body>
  void for_each_tile(const Block& block, const void* masters, Real* p, const Body& body) const {
    for (std::int32_t t = block.first_tile; t < block.first_tile + block.tile_count; ++t) {
      const Tile& tile = context.elements.tiles[t];
      body(t, work_on(context, tile, masters), p + (tile.flat - block.flat));
    }
  }

  /// W of this block, and all that its companion reads
  MemoryAhead fetched_meanwhile(std::int64_t b,
                                const std::optional<Schedule::Task>& companion) const {
    MemoryAhead memory{weights_ahead(context, b, update)};
    memory.add(read_by(companion));
    if (companion) memory.add(weights_ahead(context, block_of(*companion), update));
    return memory;
  }

  /// What the filter, and the first product, of a block read.
  MemoryAhead read_by(const std::optional<Schedule::Task>& task) const {
    if (!task) return {};
    const Stack& stack = stacks[task->group];
    const std::int64_t b = block_of(*task);
    const Block& block = context.elements.blocks[b];
    return {gradient_ahead<Real>({context, level, nullptr}, stack, b),
            slot_ahead<Real>(gradients.first_moment, block),
            slot_ahead<Real>(grafting() == nullptr ? nullptr : grafting()->second_moment, block),
            root_ahead<Real>(stack, index_of(*task), 0)};
  }
};

}  // namespace

void CpuBackend::precondition(const PassContext& context, std::span<const Stack> stacks,
                              std::span<const Selection> selected, void* direction,
                              double* direction_norms) {
  if (*context.proceed == 0) return;
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, selected[s].count, product_cost(stacks[s], 2));

  with_real(context.elements.arithmetic, [&]<typename Real>(Real*) {
    const VectorKernels<Real>& vector = level_.in<Real>();
    const auto index_of = [&](const Schedule::Task& task) {
      return selected[task.group].blocks[task.member];
    };
    workers_.run_schedule_ahead([&](const Schedule::Task& task, const TasksAhead& tasks_ahead,
                                    Scratch& scratch) {
      const std::int64_t index = index_of(task), b = stacks[task.group].first_block + index;
      const Block& block = context.elements.blocks[b];
      const auto read_by = [&](const std::optional<Schedule::Task>& other) -> MemoryAhead {
        if (!other) return {};
        const Stack& stack = stacks[other->group];
        const Block& other_block = context.elements.blocks[stack.first_block + index_of(*other)];
        return {slot_ahead<Real>(direction, other_block),
                root_ahead<Real>(stack, index_of(*other), 0)};
      };
      Real* const p = static_cast<Real*>(direction) + block.flat;
      RootProducts<Real>(vector, stacks[task.group], index, scratch)
          .apply(p, read_by(tasks_ahead.companion), read_by(tasks_ahead.next));
      if (direction_norms != nullptr) direction_norms[b] = vector.squared_norm(p, block.elements);
    });
  });
}

void CpuBackend::precondition_and_update(const PassContext& context, const GradientPass& gradients,
                                         std::span<const Stack> stacks,
                                         std::span<const Selection> present,
                                         double* direction_norms, const UpdatePass& update) {
  if (stacks.size() != present.size())
    throw std::logic_error("precondition_and_update: " + std::to_string(stacks.size()) +
                           " stacks, " + std::to_string(present.size()) + " selections");
  if (*context.proceed == 0) return;
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, present[s].count,
                          product_cost(stacks[s], 2) +
                              element_passes * static_cast<double>(elements_of(stacks[s].extent)));

  with_real(context.elements.arithmetic, [&]<typename Real>(Real*) {
    workers_.run_schedule_ahead(
        BlockPasses<Real>{context, level_, gradients, stacks, present, direction_norms, update});
  });
  finish_update(context, update);
}

}  // namespace shampoo::kernels
