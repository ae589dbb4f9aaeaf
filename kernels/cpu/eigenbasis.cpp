// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/basis_product.h"
#include "kernels/cpu/gather_gradient.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/solver_tasks.h"

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
  void filter(Real* a, Real* b) const {
    const std::int64_t bytes = block().elements * static_cast<std::int64_t>(sizeof(Real));
    rotation.into(fetch_gradient_rows<Real>(context, stack, row(), a), a, b,
                  {{{elements(pass.second_moment), bytes}, {elements(pass.first_moment), bytes}}});
    vector.precondition_gradient(coefficients(), stack.exponent, a, block().elements,
                                 elements(pass.second_moment), elements(pass.first_moment));
    rotation.out_of(a, b, elements(pass.direction));
  }

  void run(Real* a, Real* b) const {
    const bool preconditions = context.phase.modes[row()] == Mode::preconditioned;
    if (pass.filters) {
      filter(a, b);
    } else {
      if (pass.second_moment != nullptr) accumulate(a, b);
      if (preconditions) apply(b);
    }
    if (preconditions && pass.direction_norms != nullptr)
      pass.direction_norms[row()] = vector.squared_norm(elements(pass.direction), block().elements);
  }
};

}  // namespace

void CpuBackend::precondition_in_eigenbasis(const PassContext& phase, std::span<const Stack> stacks,
                                            std::span<const Selection> present,
                                            const EigenbasisPass& pass) {
  if (*phase.proceed == 0) return;
  const GradientContext context{phase, level_, static_cast<const float*>(pass.masters)};
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, present[s].count, rotation_cost(stacks[s], pass.filters ? 4 : 6));

  workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
    with_real(phase.elements.arithmetic, [&]<typename Real>(Real*) {
      const std::int64_t index = present[s].blocks[member];
      const BlockTask<Real> task{
          context, stacks[s],         pass,
          index,   level_.in<Real>(), BlockRotation<Real>(stacks[s], index, scratch)};
      const std::int64_t elements = task.block().elements;
      Real* const a = scratch.take<Real>(elements);
      Real* const b = scratch.take<Real>(elements);
      task.run(a, b);
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
