// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/half_gram.h"
#include "kernels/cuda/gemm/mode_product.h"
#include "kernels/cuda/gemm/tile_class.h"
#include "kernels/cuda/mode_tasks.h"

namespace shampoo::kernels::cuda {

void DeviceBackend::accumulate_factors(const PassContext& phase, std::span<const Stack> stacks,
                                       std::span<const Selection>, const void* masters) {
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  const bool limits = phase.limits_gradients();
  if (limits ||
      std::ranges::any_of(stacks, [](const Stack& stack) { return stack.gradients.gathered; }))
    with_real(arithmetic, [&](auto* tag) {
      using Real = Element<decltype(tag)>;
      device_->launch(phase.elements.tile_count,
                      GatherGradients<Real>{p, static_cast<const float*>(masters)});
    });
  for_each_tile_class([&]<typename Class>(Class) {
    constexpr int tile = Class::tile;
    constexpr bool has_halves = tile == HalfGram::side;
    TaskQueue queue(std::type_identity<GramTask>(), [&](const TaskList<GramTask>& list) {
      device_->launch(list.blocks, Gram<typename Class::real, tile>{p, list});
    });
    TaskQueue halves(std::type_identity<GramTask>(), [&](const TaskList<GramTask>& list) {
      if constexpr (has_halves) device_->launch(list.blocks, HalfGram{p, list});
    });
    for (const Stack& stack : stacks)
      for (std::size_t k = 0; k < stack.extent.size(); ++k) {
        if (stack.factors[k] == nullptr || !Class::has(arithmetic, stack.extent[k])) continue;
        const GramTask task{lower_tiles(stack.extent[k], tile),
                            stack.first_block,
                            mode_shape(stack.extent, k),
                            static_cast<int>(stack.extent.size()),
                            static_cast<int>(k),
                            stack.factors[k],
                            stack.layout};
        const auto [some_halves, wider, gathered] = stack.gradients;
        if (wider || gathered || limits || !has_halves) queue.add(task, stack.count);
        if (some_halves && has_halves && !limits) halves.add(task, stack.count);
      }
    queue.flush();
    halves.flush();
  });
}

void DeviceBackend::accumulate_whitened_factors(const PassContext& phase,
                                                std::span<const Stack> stacks,
                                                std::span<const Selection>, const void* masters,
                                                bool normalizes) {
  const Type arithmetic = phase.elements.arithmetic;
  void* const h = workspace_.dense(stacks, arithmetic);
  const ProductPhase gathered(phase, h);
  const ProductPhase p(phase, workspace_.second_dense(stacks, arithmetic));
  std::size_t order = 0;
  for (const Stack& stack : stacks) order = std::max(order, stack.extent.size());
  for (std::size_t k = 0; k < order; ++k) {
    with_real(arithmetic, [&](auto* tag) {
      using Real = Element<decltype(tag)>;
      device_->launch(phase.elements.tile_count,
                      GatherGradients<Real>{gathered, static_cast<const float*>(masters), true});
    });
    const bool has_bases =
        std::ranges::any_of(stacks, [](const Stack& stack) { return !stack.bases.empty(); });
    run_mode_chains(*device_, p, stacks,
                    {.arrays = has_bases ? &Stack::bases : &Stack::factors,
                     .is_basis = has_bases,
                     .except = k,
                     .accumulates = true},
                    {h, p.dense, h, workspace_.roots(stacks, arithmetic)});
    if (has_bases) scale_in_eigenbasis(*device_, p, stacks, {.except = k, .accumulates = true}, h);
    for_each_tile_class([&]<typename Class>(Class) {
      TaskQueue queue(std::type_identity<GramTask>(), [&](const TaskList<GramTask>& list) {
        device_->launch(list.blocks, Gram<typename Class::real, Class::tile>{gathered, list, true});
      });
      for (const Stack& stack : stacks) {
        if (k >= stack.extent.size() || stack.factors[k] == nullptr) continue;
        if (!Class::has(arithmetic, stack.extent[k])) continue;
        const ModeShape shape = mode_shape(stack.extent, k);
        const double others = static_cast<double>(shape.before * shape.after);
        queue.add({lower_tiles(stack.extent[k], Class::tile), stack.first_block, shape,
                   static_cast<int>(stack.extent.size()), static_cast<int>(k), stack.factors[k],
                   stack.layout, normalizes ? 1 / others : 1.0},
                  stack.count);
      }
      queue.flush();
    });
  }
}

void DeviceBackend::add_mode_products(std::span<const Stack> stacks, Type arithmetic,
                                      std::vector<Product>& products) {
  // As aligned as flat slots, roots and bases.
  void* const memory = workspace_.dense(stacks, arithmetic);
  for (const Stack& stack : stacks)
    for (const ModeMatrices& use : mode_uses(stack)) {
      const ModeChain chain(stack, use);
      for (int step = 0; chain.is_by_library() && step < chain.length(); ++step)
        products.push_back(chain.product(step, arithmetic, memory, memory, memory));
    }
}

void DeviceBackend::precondition(const PassContext& phase, std::span<const Stack> stacks,
                                 std::span<const Selection>, void* direction,
                                 double* direction_norms) {
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  run_mode_chains(*device_, p, stacks, {},
                  {direction, workspace_.second_dense(stacks, arithmetic), p.dense,
                   workspace_.roots(stacks, arithmetic)});
  take_directions(*device_, p, direction, direction_norms);
}

}  // namespace shampoo::kernels::cuda
