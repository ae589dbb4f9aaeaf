// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/gradient.h"
#include "kernels/cuda/launch/reduce.h"
#include "kernels/elementwise.h"
#include "kernels/rules/direction.h"

namespace shampoo::kernels::cuda {

/// A GradientPass as devices read it.
struct FilterInputs {
  explicit FilterInputs(const GradientPass& gradient_pass)
      : masters(gradient_pass.masters),
        first_moment(gradient_pass.first_moment),
        preconditioner(gradient_pass.preconditioner),
        has_grafting(gradient_pass.grafting.has_value()),
        grafting(gradient_pass.grafting.value_or(ElementwiseDirection{})),
        direction(gradient_pass.direction),
        grafting_norms(gradient_pass.grafting_norms),
        direction_norms(gradient_pass.direction_norms) {}

  const void* masters;
  void* first_moment;
  ElementwiseDirection preconditioner;
  bool has_grafting;
  ElementwiseDirection grafting;
  void* direction;
  const double* grafting_norms;
  const double* direction_norms;
};

/// Elementwise::filter(). The tile's part of the grafting's squared norm goes to partials[tile],
/// that of the direction's to partials[tile_count + tile]. One block of threads per tile.
template <typename Real>
struct FilterTile {
  static constexpr int threads = 128;
  static constexpr int blocks_per_processor = sizeof(Real) == 4 ? 5 : 2;
  struct Shared {
    double sums[threads], direction_sums[threads];
  };

  FilterTile(const PassContext& pass_context, const GradientPass& gradient_pass)
      : context(pass_context), pass(gradient_pass) {}

  PassContext context;
  FilterInputs pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// An ElementwiseDirection of one block.
template <typename Real>
struct BlockDirection {
  SHAMPOO_BOTH BlockDirection(const ElementwiseDirection& of, const SecondMoment& c,
                              const Tile& tile)
      : rule(of.rule),
        coefficients(c),
        second_moment(slot_span<Real>(of.second_moment, tile)),
        companion(static_cast<Real*>(slot_span<Real>(of.companion, tile).first)) {}

  SHAMPOO_BOTH void read_moment(std::int32_t i, std::int32_t count, Real (&v)[group_size]) const {
    if (second_moment.first != nullptr) read(second_moment, i, count, v);
  }

  /// V and its companion; then v is what the direction takes in place of V.
  SHAMPOO_BOTH void accumulate(const Real (&g)[group_size], std::int32_t i, std::int32_t count,
                               Real (&v)[group_size]) const {
    with_direction(rule, coefficients, [&](const auto direction) {
      if constexpr (direction.has_second_moment) {
        for (int k = 0; k < group_size; ++k) v[k] = direction.accumulated(v[k], g[k]);
        write(second_moment, i, count, v);
      }
      if constexpr (direction.has_companion) {
        const StridedSpan span = packed(companion, type_of_real<Real>);
        Real x[group_size];
        read(span, i, count, x);
        for (int k = 0; k < group_size; ++k) {
          x[k] = direction.accompanied(x[k], v[k], g[k]);
          v[k] = direction.radicand(v[k], x[k]);
        }
        write(span, i, count, x);
      }
    });
  }

  /// to <- the direction of f
  SHAMPOO_BOTH void apply(const Real (&f)[group_size], const Real (&v)[group_size],
                          Real (&to)[group_size]) const {
    with_direction(rule, coefficients, [&](const auto direction) {
      for (int k = 0; k < group_size; ++k) to[k] = direction(f[k], v[k]);
    });
  }

  DirectionRule rule;
  SecondMomentRule<Real> coefficients;
  StridedSpan second_moment;
  Real* companion;
};

/// The inputs for one tile.
template <typename Real>
struct FilterWork {
  SHAMPOO_BOTH FilterWork(const PassContext& context, const FilterInputs& pass, const Tile& tile)
      : FilterWork(context, pass, tile, context.coefficients[tile.block]) {}
  SHAMPOO_BOTH FilterWork(const PassContext& context, const FilterInputs& pass, const Tile& tile,
                          const Coefficients& c)
      : use(context.modes[tile.block], pass.has_grafting, pass.grafting_norms,
            pass.direction_norms),
        rule(c),
        gradient(context, tile, context.elements.blocks[tile.block], pass.masters),
        preconditioner(pass.preconditioner, c.preconditioner, tile),
        grafting(pass.grafting, c.grafting, tile),
        first_moment(slot_span<Real>(pass.first_moment, tile)) {}

  DirectionUse use;
  FilterRule<Real> rule;
  Gradient<Real> gradient;
  BlockDirection<Real> preconditioner, grafting;
  StridedSpan first_moment;
};

template <typename Real>
SHAMPOO_BOTH double sum_of_products(const Real (&x)[group_size], const Real (&y)[group_size],
                                    std::int32_t count) {
  double sum = 0;
  for (int k = 0; k < group_size; ++k)
    if (k < count) sum += static_cast<double>(x[k]) * static_cast<double>(y[k]);
  return sum;
}

/// P, in f. Unless it `grafts`, a pass has neither grafting nor norms, and no registers for them.
template <bool grafts, typename Real>
SHAMPOO_BOTH void filter_group(const FilterWork<Real>& work, std::int32_t i, std::int32_t count,
                               Real (&f)[group_size], double& grafting_sum, double& direction_sum) {
  Real m[group_size], v[group_size] = {};
  [[maybe_unused]] Real grafting_v[group_size] = {};
  if (work.rule.filters) read(work.first_moment, i, count, m);
  work.preconditioner.read_moment(i, count, v);
  if constexpr (grafts) work.grafting.read_moment(i, count, grafting_v);
  work.gradient.read(i, count, f);

  work.preconditioner.accumulate(f, i, count, v);
  if constexpr (grafts) work.grafting.accumulate(f, i, count, grafting_v);
  if (work.rule.filters) {
    for (int k = 0; k < group_size; ++k) {
      const Real g = f[k];
      f[k] = work.rule.filtered(m[k], g);
      m[k] = work.rule.moment(m[k], g);
    }
    write(work.first_moment, i, count, m);
  }
  if constexpr (grafts) {
    if (work.use.grafts) work.grafting.apply(f, grafting_v, f);
    if (work.use.grafting_norm) {
      work.grafting.apply(f, grafting_v, m);
      grafting_sum += sum_of_products(m, m, count);
    }
  }
  if (work.use.preconditions) work.preconditioner.apply(f, v, f);
  if constexpr (grafts) {
    if (work.use.direction_norm) direction_sum += sum_of_products(f, f, count);
  }
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void FilterTile<Real>::operator()(Threads& block, Shared& shared) const {
  if (*context.proceed == 0) return;
  const std::int64_t index = block.index();
  const Tile tile = context.elements.tiles[index];
  if (context.modes[tile.block] == Mode::absent) return;
  const FilterWork<Real> work(context, pass, tile);
  const StridedSpan direction = slot_span<Real>(pass.direction, tile);

  block.each([&](int thread) {
    double sum = 0, direction_sum = 0;
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      Real p[group_size];
      filter_group<true>(work, i, count, p, sum, direction_sum);
      write(direction, i, count, p);
    });
    shared.sums[thread] = sum;
    shared.direction_sums[thread] = direction_sum;
  });
  const auto store = [&](double* sums, double& partial) {
    reduce(block, sums, [](double a, double b) { return a + b; });
    block.each([&](int thread) {
      if (thread == 0) partial = sums[0];
    });
  };
  double* const partials = context.elements.partials + index;
  if (work.use.grafting_norm) store(shared.sums, partials[0]);
  if (work.use.direction_norm) store(shared.direction_sums, partials[context.elements.tile_count]);
}

/// Squared norms of preconditioned blocks, from those of their tiles; null: not wanted. One thread
/// per block.
struct SumTiles {
  static constexpr int threads = 128;
  struct Shared {};

  TileTable elements;
  const Mode* modes = nullptr;
  const std::int32_t* proceed = nullptr;
  double* grafting_norms = nullptr;
  double* direction_norms = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const {
    if (*proceed == 0) return;
    block.each([&](int thread) {
      const std::int64_t i = block.index() * threads + thread;
      if (i >= elements.block_count || modes[i] != Mode::preconditioned) return;
      const Block& b = elements.blocks[i];
      if (grafting_norms != nullptr) grafting_norms[i] = sum_of_tiles(b, elements.partials);
      if (direction_norms != nullptr)
        direction_norms[i] = sum_of_tiles(b, elements.partials + elements.tile_count);
    });
  }
};

}  // namespace shampoo::kernels::cuda
