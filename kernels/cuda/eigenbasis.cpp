// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/gram.h"
#include "kernels/cuda/gemm/moment_kernels.h"
#include "kernels/cuda/mode_tasks.h"

namespace shampoo::kernels::cuda {

namespace {

/// One task per stack, or per stack and dimension with scales.
template <typename Kernel, typename Add>
void launch_elementwise(Device& device, const Kernel& kernel, const Add& add) {
  TaskQueue queue(std::type_identity<MomentTask>(), [&](const TaskList<MomentTask>& list) {
    Kernel launched = kernel;
    launched.list = list;
    device.launch(list.blocks, launched);
  });
  add(queue);
  queue.flush();
}

MomentTask moment_task(const Stack& stack) {
  MomentTask task;
  task.first_block = stack.first_block;
  task.shape = {1, 1, 1};
  for (const std::int64_t side : stack.extent) task.shape.after *= side;
  task.exponent = stack.exponent;
  task.tiles = ceiling(task.shape.after, MomentTask::elements);
  return task;
}

template <typename Real>
void apply_moments(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
                   MomentUse use, const void* elements, const EigenbasisPass& pass) {
  const UseMoments<Real> kernel{phase, use, elements, pass.second_moment, pass.first_moment, {}};
  launch_elementwise(device, kernel, [&](auto& queue) {
    for (const Stack& stack : stacks) queue.add(moment_task(stack), stack.count);
  });
}

}  // namespace

void scale_in_eigenbasis(Device& device, const ProductPhase& phase, std::span<const Stack> stacks,
                         const ModeMatrices& which, void* elements) {
  std::size_t order = 0;
  for (const Stack& stack : stacks) order = std::max(order, stack.scales.size());
  const MomentUse use = which.accumulates ? MomentUse::scale_present : MomentUse::scale;
  for (std::size_t k = 0; k < order; ++k)
    with_real(phase.elements.arithmetic, [&](auto* tag) {
      using Real = Element<decltype(tag)>;
      launch_elementwise(
          device, UseMoments<Real>{phase, use, elements, nullptr, nullptr, {}}, [&](auto& queue) {
            for (const Stack& stack : stacks) {
              if (k == which.except || k >= stack.scales.size() || stack.scales[k] == nullptr)
                continue;
              MomentTask task = moment_task(stack);
              task.shape = mode_shape(stack.extent, k);
              task.scales = stack.scales[k];
              queue.add(task, stack.count);
            }
          });
    });
}

void DeviceBackend::precondition_in_eigenbasis(const PassContext& phase,
                                               std::span<const Stack> stacks,
                                               std::span<const Selection>,
                                               const EigenbasisPass& pass) {
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  void* const scratch = workspace_.second_dense(stacks, arithmetic);
  const ModeMemory in_place{p.dense, scratch, p.dense};
  with_real(arithmetic, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    if (pass.second_moment != nullptr) {
      device_->launch(phase.elements.tile_count,
                      GatherGradients<Real>{p, static_cast<const float*>(pass.masters), true});
      run_mode_chains(*device_, p, stacks,
                      {.arrays = &Stack::bases, .is_basis = true, .accumulates = true}, in_place);
      apply_moments<Real>(*device_, p, stacks,
                          pass.filters ? MomentUse::filter : MomentUse::accumulate, p.dense, pass);
    }
    if (pass.filters) return;
    run_mode_chains(*device_, p, stacks, {.arrays = &Stack::bases, .is_basis = true},
                    {pass.direction, scratch, p.dense});
    if (pass.second_moment != nullptr)
      apply_moments<Real>(*device_, p, stacks, MomentUse::divide, p.dense, pass);
    else
      scale_in_eigenbasis(*device_, p, stacks, {}, p.dense);
  });
  run_mode_chains(*device_, p, stacks,
                  {.arrays = &Stack::bases, .is_basis = true, .transposed = true}, in_place);
  take_directions(*device_, p, pass.direction, pass.direction_norms);
}

void DeviceBackend::rotate(const PassContext& phase, std::span<const Stack> stacks,
                           std::span<const Selection>, bool transposed, void* elements) {
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  run_mode_chains(*device_, p, stacks,
                  {.arrays = &Stack::bases, .is_basis = true, .transposed = transposed},
                  {elements, workspace_.second_dense(stacks, arithmetic), p.dense});
  take_directions(*device_, p, elements, nullptr);
}

}  // namespace shampoo::kernels::cuda
