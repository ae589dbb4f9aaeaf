// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gather_gradient.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/root_products.h"
#include "kernels/cpu/tile_work.h"
#include "kernels/cpu/with_real.h"

namespace shampoo::kernels {

namespace {

/// Passes over an element take the time of so many operations of a product.
constexpr double element_passes = 140;

/// Elements of a block in a flat slot.
template <typename Real>
RowsAhead slot_ahead(const void* slot, const Block& block) {
  return slot == nullptr ? RowsAhead{}
                         : ahead(static_cast<const Real*>(slot) + block.flat, block.elements);
}

/// W of a block
RowsAhead weights_ahead(const TileTable& elements, const Block& block, const void* masters) {
  if (block.master >= 0)
    return ahead(static_cast<const float*>(masters) + block.master, block.elements);
  const Tile& first = elements.tiles[block.first_tile];
  const auto bytes = static_cast<std::int64_t>(size_of(elements.tensors.value_types[block.tensor]));
  return {static_cast<const char*>(elements.tensors.values[block.tensor]) + first.value * bytes,
          block.elements / first.columns, first.columns * bytes, first.value_row * bytes};
}

/// filter(), precondition() and update() of blocks of a table.
template <typename Real>
class BlockStep {
 public:
  BlockStep(const PassContext& context, const VectorLevel& level, const GradientPass& gradients,
            std::span<const Stack> stacks, std::span<const Selection> present,
            double* direction_norms, const UpdatePass& update)
      : context_(context),
        level_(level),
        gradients_(gradients),
        grafting_(gradients.grafting ? &*gradients.grafting : nullptr),
        stacks_(stacks),
        present_(present),
        direction_norms_(direction_norms),
        update_(update) {}

  void operator()(const Schedule::Task& task, const Schedule::Task* next, Scratch& scratch) const {
    const VectorKernels<Real>& vector = level_.in<Real>();
    const Stack& stack = stacks_[task.group];
    const std::int64_t b = block_of(task);
    const Block& block = context_.elements.blocks[b];
    Real* const p = scratch.take<Real>(block.elements);

    for_each_tile(block, gradients_.masters, p, [&](std::int32_t t, const Work& work, Real* at) {
      context_.elements.partials[t] = vector.filter(work, gradients_, grafting_, at).grafting;
    });
    if (context_.modes[b] == Mode::preconditioned) {
      if (grafting_ != nullptr)
        gradients_.grafting_norms[b] = sum_of_tiles(block, context_.elements.partials);
      RootProducts<Real>(vector, stack, index_of(task), scratch)
          .apply(p, {weights_ahead(context_.elements, block, update_.masters)}, ahead_of(next));
      direction_norms_[b] = vector.squared_norm(p, block.elements);
    }
    for_each_tile(block, update_.masters, p, [&](std::int32_t, const Work& work, const Real* at) {
      vector.update(work, update_, at);
    });
  }

 private:
  std::int64_t index_of(const Schedule::Task& task) const {
    return present_[task.group].blocks[task.member];
  }
  std::int64_t block_of(const Schedule::Task& task) const {
    return stacks_[task.group].first_block + index_of(task);
  }

  /// body(index of the tile, work, its part of P)
  template <typename Body>
  void for_each_tile(const Block& block, const void* masters, Real* p, const Body& body) const {
    for (std::int32_t t = block.first_tile; t < block.first_tile + block.tile_count; ++t) {
      const Tile& tile = context_.elements.tiles[t];
      body(t, work_on(context_, tile, masters), p + (tile.flat - block.flat));
    }
  }

  /// What the filter, and the first product, of a block read.
  MemoryAhead ahead_of(const Schedule::Task* task) const {
    if (task == nullptr) return {};
    const Stack& stack = stacks_[task->group];
    const std::int64_t b = block_of(*task);
    const Block& block = context_.elements.blocks[b];
    return {gradient_ahead<Real>({context_, level_, nullptr}, stack, b),
            slot_ahead<Real>(gradients_.first_moment, block),
            slot_ahead<Real>(grafting_ == nullptr ? nullptr : grafting_->second_moment, block),
            root_ahead<Real>(stack, index_of(*task), 0)};
  }

  const PassContext& context_;
  const VectorLevel& level_;
  const GradientPass& gradients_;
  const ElementwiseDirection* grafting_;
  std::span<const Stack> stacks_;
  std::span<const Selection> present_;
  double* direction_norms_;
  const UpdatePass& update_;
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
    workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
      const std::int64_t index = selected[s].blocks[member], b = stacks[s].first_block + index;
      const Block& block = context.elements.blocks[b];
      Real* const p = static_cast<Real*>(direction) + block.flat;
      RootProducts<Real>(vector, stacks[s], index, scratch).apply(p, {}, {});
      if (direction_norms != nullptr) direction_norms[b] = vector.squared_norm(p, block.elements);
    });
  });
}

void CpuBackend::precondition_and_update(const PassContext& context, const GradientPass& gradients,
                                         std::span<const Stack> stacks,
                                         std::span<const Selection> present,
                                         double* direction_norms, const UpdatePass& update) {
  if (*context.proceed == 0) return;
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, present[s].count,
                          product_cost(stacks[s], 2) +
                              element_passes * static_cast<double>(elements_of(stacks[s].extent)));

  with_real(context.elements.arithmetic, [&]<typename Real>(Real*) {
    workers_.run_schedule_ahead(
        BlockStep<Real>(context, level_, gradients, stacks, present, direction_norms, update));
  });
  finish_update(context, update);
}

}  // namespace shampoo::kernels
