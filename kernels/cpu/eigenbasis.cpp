// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/basis_product.h"
#include "kernels/cpu/gather_gradient.h"
#include "kernels/cpu/host_backend.h"

namespace shampoo::kernels {

namespace {

/// r <- r / ((e scale)^exponent + epsilon)
template <typename Real>
void divide_by_moment(const VectorKernels<Real>& vector, const SecondMoment& moment,
                      double exponent, const Real* e, std::int64_t count, Real* r) {
  const Real scale = static_cast<Real>(moment.scale), epsilon = static_cast<Real>(moment.epsilon);
  if (exponent == 0.5) return vector.divide_by_roots(r, e, count, scale, epsilon);
  for (std::int64_t i = 0; i < count; ++i)
    r[i] /= static_cast<Real>(std::pow(static_cast<double>(e[i] * scale), exponent)) + epsilon;
}

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
  const SecondMoment& moment() const { return context.phase.coefficients[row()].preconditioner; }

  /// E <- keep E + add (G x_k Q_k)^2
  void accumulate(Real* a, Real* b) const {
    Real* const e = static_cast<Real*>(pass.second_moment) + block().flat;
    gather_gradient(context, row(), a);
    rotation.into(a, b);
    vector.accumulate_squares(e, a, block().elements, static_cast<Real>(moment().keep),
                              static_cast<Real>(moment().add));
  }

  /// P <- ((F x_k Q_k) / ((E scale)^exponent + epsilon)) x_k Q_k^T, or with the stack's scales
  void apply(Real* b) const {
    Real* const d = static_cast<Real*>(pass.direction) + block().flat;
    rotation.into(d, b);
    if (pass.second_moment != nullptr)
      divide_by_moment(vector, moment(), stack.exponent,
                       static_cast<const Real*>(pass.second_moment) + block().flat,
                       block().elements, d);
    else
      rotation.scale(d);
    rotation.out_of(d, b);
    if (pass.direction_norms != nullptr)
      pass.direction_norms[row()] = vector.squared_norm(d, block().elements);
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
    workers_.schedule.add(s, present[s].count, rotation_cost(stacks[s], 6));

  workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
    const auto run = [&]<typename Real>(Real*) {
      const std::int64_t index = present[s].blocks[member];
      const BlockTask<Real> task{
          context, stacks[s],         pass,
          index,   level_.in<Real>(), BlockRotation<Real>(stacks[s], index, scratch)};
      const std::int64_t elements = task.block().elements;
      Real* const a = scratch.take<Real>(elements);
      Real* const b = scratch.take<Real>(elements);
      if (pass.second_moment != nullptr) task.accumulate(a, b);
      if (phase.modes[task.row()] == Mode::preconditioned) task.apply(b);
    };
    phase.elements.arithmetic == Type::float64 ? run(static_cast<double*>(nullptr))
                                               : run(static_cast<float*>(nullptr));
  });
}

}  // namespace shampoo::kernels
