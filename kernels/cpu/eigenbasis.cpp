// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/basis_product.h"
#include "kernels/cpu/gather_gradient.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/with_real.h"

namespace shampoo::kernels {

namespace {

template <typename Real>
struct BlockTask {
  const GradientContext& context;
  const Stack& stack;
  const EigenbasisPass& pass;
  std::int64_t index;  ///< in the stack
  const VectorKernels<Real>& vector;
  BlockRotation<Real> rotation;

  std::int64_t row() const { return stack.first_block + index; }
  const Block& block() const { return context.phase.elements.blocks[row()]; }
  const Coefficients& coefficients() const { return context.phase.coefficients[row()]; }
  /// Elements of the block in a flat slot, or null without one.
  Real* elements(void* slot) const {
    return slot == nullptr ? nullptr : static_cast<Real*>(slot) + block().flat;
  }

  /// E <- keep E + add (G x_k Q_k)^2
  void accumulate(Real* a, Real* b) const {
    gather_gradient(context, row(), a);
    rotation.into(a, b);
    vector.accumulate_squares(coefficients().preconditioner, a, block().elements,
                              elements(pass.second_moment));
  }

  /// P <- ((F x_k Q_k) / ((E scale)^exponent + epsilon)) x_k Q_k^T, or with the stack's scales
  void apply(Real* b) const {
    Real* const d = elements(pass.direction);
    rotation.into(d, b);
    if (pass.second_moment != nullptr)
      vector.divide_by_power(coefficients().preconditioner, stack.exponent,
                             elements(pass.second_moment), block().elements, d);
    else
      rotation.scale(d);
    rotation.out_of(d, b, d);
  }

  /// Both, with F of M and G in the eigenbases
  void filter(const MemoryAhead& then, Real* a, Real* b) const {
    const std::int64_t count = block().elements;
    rotation.into(
        fetch_gradient_rows<Real>(context, stack, row(), a, false), a, b,
        {ahead(elements(pass.second_moment), count), ahead(elements(pass.first_moment), count)});
    vector.precondition_gradient(coefficients(), stack.exponent, a, block().elements,
                                 elements(pass.second_moment), elements(pass.first_moment));
    rotation.out_of(a, b, elements(pass.direction), then);
  }

  /// `then`: what the tasks ahead read first.
  void run(const MemoryAhead& then, Real* a, Real* b) const {
    const bool preconditions = context.phase.modes[row()] == Mode::preconditioned;
    if (pass.filters) {
      filter(then, a, b);
    } else {
      if (pass.second_moment != nullptr) accumulate(a, b);
      if (preconditions) apply(b);
    }
    if (preconditions && pass.direction_norms != nullptr)
      pass.direction_norms[row()] = vector.squared_norm(elements(pass.direction), block().elements);
  }
};

/// The gradient of a block and its first basis, if it has one.
template <typename Real>
MemoryAhead first_read(const GradientContext& context, const Stack& stack, std::int64_t index) {
  const RowsAhead gradient = gradient_ahead<Real>(context, stack, stack.first_block + index);
  const auto k = static_cast<std::size_t>(
      std::ranges::find_if(stack.bases, [](const void* q) { return q != nullptr; }) -
      stack.bases.begin());
  if (k == stack.bases.size()) return {gradient};
  const std::int64_t square = stack.extent[k] * stack.extent[k];
  return {gradient, ahead(static_cast<const Real*>(stack.bases[k]) + index * square, square)};
}

}  // namespace

void CpuBackend::precondition_in_eigenbasis(const PassContext& phase, std::span<const Stack> stacks,
                                            std::span<const Selection> present,
                                            const EigenbasisPass& pass) {
  if (*phase.proceed == 0) return;
  const GradientContext context{phase, level_, static_cast<const float*>(pass.masters)};
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, present[s].count, rotation_cost(stacks[s], pass.filters ? 4 : 6));

  workers_.run_schedule_ahead(
      [&](const Schedule::Task& task, const TasksAhead& tasks_ahead, Scratch& scratch) {
        with_real(phase.elements.arithmetic, [&]<typename Real>(Real*) {
          const Stack& stack = stacks[task.group];
          const std::int64_t index = present[task.group].blocks[task.member];
          const BlockTask<Real> block{context,
                                      stack,
                                      pass,
                                      index,
                                      level_.in<Real>(),
                                      BlockRotation<Real>(stack, index, scratch)};
          MemoryAhead then;
          for (const auto& other : {tasks_ahead.companion, tasks_ahead.next})
            if (other)
              then.add(first_read<Real>(context, stacks[other->group],
                                        present[other->group].blocks[other->member]));
          Real* const a = scratch.take<Real>(block.block().elements);
          Real* const b = scratch.take<Real>(block.block().elements);
          block.run(then, a, b);
        });
      });
}

void CpuBackend::rotate(const PassContext& phase, std::span<const Stack> stacks,
                        std::span<const Selection> present, bool transposed, void* elements) {
  if (*phase.proceed == 0) return;
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, present[s].count, rotation_cost(stacks[s], 2));

  workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
    with_real(phase.elements.arithmetic, [&]<typename Real>(Real*) {
      const std::int64_t index = present[s].blocks[member];
      const std::int64_t row = stacks[s].first_block + index;
      if (phase.modes[row] != Mode::preconditioned) return;
      const Block& block = phase.elements.blocks[row];
      Real* const x = static_cast<Real*>(elements) + block.flat;
      const BlockRotation<Real> rotation(stacks[s], index, scratch);
      Real* const other = scratch.take<Real>(block.elements);
      transposed ? rotation.out_of(x, other, x) : rotation.into(x, other);
    });
  });
}

}  // namespace shampoo::kernels
