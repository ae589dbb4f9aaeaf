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
    const auto index_of = [&](const Schedule::Task& task) {
      return selected[task.group].blocks[task.member];
    };
    workers_.run_schedule_ahead(
        [&](const Schedule::Task& task, const Schedule::Task* next, Scratch& scratch) {
          const Stack& stack = stacks[task.group];
          const std::int64_t index = index_of(task), b = stack.first_block + index;
          const Block& block = phase.elements.blocks[b];
          MemoryAhead then;
          if (next != nullptr) {
            const Stack& other = stacks[next->group];
            const Block& next_block = phase.elements.blocks[other.first_block + index_of(*next)];
            then = {ahead(all + next_block.flat, next_block.elements),
                    root_ahead<Real>(other, index_of(*next), 0)};
          }
          RootProducts<Real>(vector, stack, index, scratch).apply(all + block.flat, then);
          if (direction_norms != nullptr)
            direction_norms[b] = vector.squared_norm(all + block.flat, block.elements);
        });
  };
  if (phase.elements.arithmetic == Type::float64)
    run(static_cast<double*>(direction));
  else
    run(static_cast<float*>(direction));
}

}  // namespace shampoo::kernels
