// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/gram_terms.h"
#include "kernels/cuda/gemm/half_gram.h"
#include "kernels/cuda/gemm/mode_product.h"
#include "kernels/cuda/gemm/tile_class.h"
#include "kernels/cuda/gram_products.h"
#include "kernels/cuda/mode_tasks.h"

namespace shampoo::kernels::cuda {

namespace {

GramTask gram_task(const Stack& stack, std::size_t k, int tile) {
  return {.tiles = lower_tiles(stack.extent[k], tile),
          .first_block = stack.first_block,
          .shape = mode_shape(stack.extent, k),
          .order = static_cast<int>(stack.extent.size()),
          .dimension = static_cast<int>(k),
          .factors = stack.factors[k],
          .layout = stack.layout};
}

/// body(stack, dimension) for all factors.
template <typename Body>
void for_each_factor(std::span<const Stack> stacks, const Body& body) {
  for (const Stack& stack : stacks)
    for (std::size_t k = 0; k < stack.extent.size(); ++k)
      if (stack.factors[k] != nullptr) body(stack, k);
}

/// True if some block may have a gradient that HalfGram leaves.
bool has_wider_gradients(const Stack& stack) {
  return stack.gradients.wider || stack.gradients.gathered;
}

}  // namespace

void DeviceBackend::accumulate_factors(const PassContext& phase, std::span<const Stack> stacks,
                                       std::span<const Selection>, const void* masters) {
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  const bool limits = phase.limits_gradients();
  bool gathers = false;
  for_each_factor(stacks, [&](const Stack& stack, std::size_t k) {
    gathers |= (limits || stack.gradients.gathered) && !has_library_gram(stack, k, arithmetic);
  });
  if (gathers)
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
    for_each_factor(stacks, [&](const Stack& stack, std::size_t k) {
      if (!Class::has(arithmetic, stack.extent[k])) return;
      const GramTask task = gram_task(stack, k, tile);
      const bool others = limits || has_wider_gradients(stack) || !has_halves;
      if (others && !has_library_gram(stack, k, arithmetic)) queue.add(task, stack.count);
      if (stack.gradients.halves && has_halves && !limits) halves.add(task, stack.count);
    });
    queue.flush();
    halves.flush();
  });
  accumulate_by_library(p, stacks, static_cast<const float*>(masters));
}

void DeviceBackend::accumulate_by_library(const ProductPhase& phase, std::span<const Stack> stacks,
                                          const float* masters) {
  const Type arithmetic = phase.elements.arithmetic;
  const auto takes_part = [&](const Stack& stack, std::size_t k) {
    return k < stack.extent.size() && (phase.limits_gradients() || has_wider_gradients(stack)) &&
           has_library_gram(stack, k, arithmetic);
  };
  std::size_t order = 0;
  for_each_factor(stacks, [&](const Stack& stack, std::size_t k) {
    if (takes_part(stack, k)) order = std::max(order, k + 1);
  });
  if (order == 0) return;
  device_->launch(phase.elements.tile_count, SplitGradients{phase, masters});
  char* const roots = static_cast<char*>(workspace_.roots(stacks, arithmetic));
  for (std::size_t k = 0; k < order; ++k) {
    TaskQueue queue(std::type_identity<GramTask>(), [&](const TaskList<GramTask>& list) {
      device_->launch(list.blocks, AddGram{phase, list});
    });
    std::size_t before = 0;
    std::int64_t flat = 0;
    for (const Stack& stack : stacks) {
      if (takes_part(stack, k)) {
        float* const sums = reinterpret_cast<float*>(roots + before);
        const Bfloat16* const terms =
            static_cast<const Bfloat16*>(phase.dense) + TermLayout::before(flat);
        for (const Product& product : gram_products(stack, k, terms, sums))
          device_->multiply(product);
        GramTask task = gram_task(stack, k, AddGram::side);
        task.sums = sums;
        queue.add(task, stack.count);
      }
      before += dense_root_bytes(stack, arithmetic);
      flat += stack.count * stack.stride;
    }
    queue.flush();
  }
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
        GramTask task = gram_task(stack, k, Class::tile);
        task.weight = normalizes ? 1 / others : 1.0;
        queue.add(task, stack.count);
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
  for_each_factor(stacks, [&](const Stack& stack, std::size_t k) {
    if (!has_library_gram(stack, k, arithmetic)) return;
    const auto terms = gram_products(stack, k, memory, memory);
    products.insert(products.end(), terms.begin(), terms.end());
  });
}

void DeviceBackend::precondition(const PassContext& phase, std::span<const Stack> stacks,
                                 std::span<const Selection>, void* direction,
                                 double* direction_norms) {
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  run_mode_chains(*device_, p, stacks, {},
                  {direction, workspace_.second_dense(stacks, arithmetic), p.dense,
                   workspace_.roots(stacks, arithmetic), direction_norms});
  take_directions(*device_, p, direction, direction_norms,
                  has_operand_scales(stacks, {}, arithmetic));
}

}  // namespace shampoo::kernels::cuda
