// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/product_phase.h"
#include "kernels/cuda/gemm/tile_product.h"
#include "kernels/rules/factor_layout.h"
#include "kernels/rules/gradient_rule.h"

namespace shampoo::kernels::cuda {

/// dense <- G of every block, or only of those that statistics cannot read in place. One block of
/// threads per tile.
template <typename Real>
struct GatherGradients {
  static constexpr int threads = 256;
  struct Shared {};

  ProductPhase phase;
  const float* masters = nullptr;
  bool all = false;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// A dimension of a stack whose factors are updated.
struct GramTask {
  std::int64_t tiles = 0;        ///< lower tiles of a factor
  std::int64_t first_block = 0;  ///< of the stack
  ModeShape shape;
  int order = 0, dimension = 0;
  void* factors = nullptr;
  FactorLayout layout = FactorLayout::with_root;
  double weight = 1;            ///< of C
  const float* sums = nullptr;  ///< C of every block, where a library computes it
};

/// L <- keep L + add C, lower triangles. One block of threads per lower tile.
template <typename Real, int Side>
struct Gram {
  using Tile = TileProduct<Real, Side>;
  static constexpr int threads = Tile::threads;
  static constexpr int blocks_per_processor = Tile::blocks_per_processor;
  using Shared = typename Tile::Shared;

  ProductPhase phase;
  TaskList<GramTask> list;
  bool gathered = false;  ///< all of G lies in the dense memory

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  /// G by the index along the dimension and the number of all others.
  SHAMPOO_BOTH Strided<Real> operand(const GramTask& task, std::int64_t block) const;
};

/// body(e, G) for all elements e of a tile, from 0, in the order of flat slots.
template <typename Real, typename Threads, typename Body>
SHAMPOO_BOTH void for_each_gradient(Threads& block_of_threads, const ProductPhase& phase,
                                    const Tile& tile, double scale, const float* masters,
                                    const Body& body) {
  const Block& block = phase.elements.blocks[tile.block];
  const Tensors& tensors = phase.elements.tensors;
  const GradientRule<Real> rule(scale, phase.gradient_limit, phase.coefficients[tile.block]);
  const bool has_master = masters != nullptr && block.master >= 0;
  const float* const master =
      has_master ? masters + block.master + (tile.flat - block.flat) : nullptr;
  const int count = tile.rows * tile.columns;  // at most tile_elements

  with_type(tensors.gradient_types[tile.tensor], [&](auto* gradient_tag) {
    const auto* const gradient =
        static_cast<const Element<decltype(gradient_tag)>*>(tensors.gradients[tile.tensor]) +
        tile.gradient;
    with_type(tensors.value_types[tile.tensor], [&](auto* value_tag) {
      const auto* const value =
          static_cast<const Element<decltype(value_tag)>*>(tensors.values[tile.tensor]) +
          tile.value;
      block_of_threads.each([&](int thread) {
        for (int e = thread; e < count; e += Threads::count) {
          const std::int64_t row = e / tile.columns, column = e % tile.columns;
          Real g = rule.scaled(
              real<Real>(gradient[row * tile.gradient_row + column * tile.gradient_column]));
          if (rule.decays)
            g = rule.decayed(
                g, has_master
                       ? real<Real>(master[e])
                       : real<Real>(value[row * tile.value_row + column * tile.value_column]));
          body(e, g);
        }
      });
    });
  });
}

template <typename Real>
template <typename Threads>
SHAMPOO_BOTH void GatherGradients<Real>::operator()(Threads& block, Shared&) const {
  const Tile tile = phase.elements.tiles[block.index()];
  if (!phase.accumulates(tile.block) || (!all && phase.reads_in_place(tile.block))) return;
  Real* const to = static_cast<Real*>(phase.dense) + tile.flat;
  for_each_gradient<Real>(block, phase, tile, phase.scale_of(tile.tensor), masters,
                          [&](int e, Real g) { to[e] = g; });
}

template <typename Real, int Side>
SHAMPOO_BOTH Strided<Real> Gram<Real, Side>::operand(const GramTask& task, std::int64_t row) const {
  const Block& block = phase.elements.blocks[row];
  const ModeShape& shape = task.shape;
  Strided<Real> g;
  g.line_count = shape.side;
  g.place_count = shape.before * shape.after;
  if (!gathered && phase.reads_in_place(row)) {
    g.type = phase.elements.tensors.gradient_types[block.tensor];
    with_type(g.type, [&](auto* tag) {
      g.data = static_cast<const Element<decltype(tag)>*>(
                   phase.elements.tensors.gradients[block.tensor]) +
               block.gradient;
    });
    g.scale = static_cast<Real>(phase.scale_of(block.tensor));
    const bool is_first_of_two = task.order == 2 && task.dimension == 0;
    g.lines.inner = is_first_of_two ? block.gradient_row : block.gradient_column;
    g.places.inner = is_first_of_two ? block.gradient_column : block.gradient_row;
    return g;
  }
  g.data = static_cast<const Real*>(phase.dense) + block.flat;
  g.type = sizeof(Real) == sizeof(float) ? Type::float32 : Type::float64;
  g.lines.inner = shape.after;
  if (shape.after == 1)
    g.places.inner = shape.side;
  else
    g.places = {1, shape.before == 1 ? 0 : shape.after, shape.side * shape.after};
  return g;
}

template <typename Real, int Side>
template <typename Threads>
SHAMPOO_BOTH void Gram<Real, Side>::operator()(Threads& block, Shared& shared) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.shape.side;
  if (!phase.accumulates(row)) return;
  // See HalfGram.
  if (Side == 128 && !gathered && phase.is_on_matrix_units(row)) return;
  const TileIndex tile = lower_tile(number);
  const std::int64_t top = tile.row * Side, start = tile.column * Side;
  const Strided<Real> g = operand(task, row);
  typename Threads::template PerThread<typename Tile::Sums> sums;
  Tile::multiply(block, shared, g, top, g, start, sums);

  const bool packed = is_packed(task.layout);
  Real* const factor =
      static_cast<Real*>(task.factors) + member * array_elements(task.layout, n, sizeof(Real));
  const Real keep = static_cast<Real>(phase.coefficients[row].factor_keep);
  const Real add = static_cast<Real>(phase.coefficients[row].factor_add * task.weight);
  Tile::for_each_sum(block, shared, sums, [&](int i, int j, Real sum) {
    const std::int64_t r = top + i, c = start + j;
    if (r >= n || c > r) return;
    Real& to = factor[triangle_row(packed, n, r) + c];
    to = keep * to + add * sum;
  });
}

}  // namespace shampoo::kernels::cuda
