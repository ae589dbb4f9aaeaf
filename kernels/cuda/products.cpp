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
        queue.add({lower_tiles(stack.extent[k], tile), stack.first_block,
                   mode_shape(stack.extent, k), static_cast<int>(stack.extent.size()),
                   static_cast<int>(k), stack.factors[k], stack.packed},
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
  run_mode_chains(*device_, p, stacks, {.arrays = &Stack::factors}, direction);
  norm_directions(*device_, p, direction, direction_norms);
}

}  // namespace shampoo::kernels::cuda
