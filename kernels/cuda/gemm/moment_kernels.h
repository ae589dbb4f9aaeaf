// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/gemm/product_phase.h"
#include "kernels/rules/gradient_rule.h"
#include "kernels/rules/power_direction.h"

namespace shampoo::kernels::cuda {

/// Elements of all blocks of a stack.
struct MomentTask {
  static constexpr std::int64_t elements = 4096;  ///< of a block of threads

  std::int64_t tiles = 0;
  std::int64_t first_block = 0;  ///< of the stack
  ModeShape shape;
  double exponent = 0.5;
  const void* scales = nullptr;  ///< one per index along the dimension of the shape
};

enum class MomentUse : std::uint8_t {
  accumulate,    ///< E <- keep E + add R^2, for present blocks
  divide,        ///< R <- R / ((E scale)^exponent + epsilon), for preconditioned blocks
  filter,        ///< accumulate; R <- FilterRule's F of M and R; divide; for the same
  scale,         ///< R <- R s along one dimension, likewise
  scale_present  ///< the same for present blocks
};

/// What happens to elements R in the eigenbases. One block of threads per part of a block.
template <typename Real>
struct UseMoments {
  static constexpr int threads = 256;
  struct Shared {};

  ProductPhase phase;
  MomentUse use = MomentUse::divide;
  const void* elements = nullptr;  ///< R; flat
  void* moments = nullptr;         ///< E; flat
  void* first_moments = nullptr;   ///< M; flat; null where nothing is filtered
  TaskList<MomentTask> list;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void UseMoments<Real>::operator()(Threads& block, Shared&) const {
  const auto [task, member, tile] = list.item(block.index());
  const std::int64_t row = task.first_block + member;
  const bool accumulates = use == MomentUse::accumulate;
  if (!(accumulates || use == MomentUse::scale_present ? phase.accumulates(row)
                                                       : phase.preconditions(row)))
    return;
  const std::int64_t flat = phase.elements.blocks[row].flat;
  Real* const r = static_cast<Real*>(const_cast<void*>(elements)) + flat;
  Real* const e = moments == nullptr ? nullptr : static_cast<Real*>(moments) + flat;
  Real* const m = first_moments == nullptr ? nullptr : static_cast<Real*>(first_moments) + flat;
  const Coefficients& c = phase.coefficients[row];
  const FilterRule<Real> filter(c);
  const bool filters = use == MomentUse::filter && filter.filters;
  const ModeShape shape = task.shape;
  const std::int64_t begin = tile * MomentTask::elements;
  const std::int64_t rest = shape.elements() - begin;
  const std::int64_t end = begin + (rest < MomentTask::elements ? rest : MomentTask::elements);
  const auto each = [&](const auto& body) {
    block.each([&](int thread) {
      for (std::int64_t i = begin + thread; i < end; i += threads) body(i);
    });
  };
  if (e == nullptr) {
    const Real* const s = static_cast<const Real*>(task.scales) + member * shape.side;
    return each([&](std::int64_t i) { r[i] *= s[i / shape.after % shape.side]; });
  }
  with_exponent<Real>(task.exponent, c.preconditioner, [&](const auto direction) {
    each([&](std::int64_t i) {
      if (use != MomentUse::divide) e[i] = direction.accumulated(e[i], r[i]);
      if (accumulates) return;
      const Real f = filters ? filter.filtered(m[i], r[i]) : r[i];
      if (filters) m[i] = filter.moment(m[i], r[i]);
      r[i] = direction(f, e[i]);
    });
  });
}

}  // namespace shampoo::kernels::cuda
