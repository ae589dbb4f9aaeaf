// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/root_products.h"

namespace shampoo::kernels {

void CpuBackend::precondition(const PassContext& phase, std::span<const Stack> stacks,
                              std::span<const Selection> selected, void* direction,
                              double* direction_norms) {
  if (*phase.proceed == 0) return;
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, selected[s].count, product_cost(stacks[s], 2));

  const auto run = [&]<typename Real>(Real* all) {
    const VectorKernels<Real>& vector = level_.in<Real>();
    workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
      const std::int64_t index = selected[s].blocks[member];
      const Block& block = phase.elements.blocks[stacks[s].first_block + index];
      Real* const d = all + block.flat;
      RootProducts<Real>(vector, stacks[s], index, scratch).apply(d);
      if (direction_norms != nullptr)
        direction_norms[stacks[s].first_block + index] = vector.squared_norm(d, block.elements);
    });
  };
  if (phase.elements.arithmetic == Type::float64)
    run(static_cast<double*>(direction));
  else
    run(static_cast<float*>(direction));
}

}  // namespace shampoo::kernels
