// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/gram_terms.h"
#include "kernels/cuda/gemm/half_gram.h"
#include "tests/bench/prediction/element_cost.h"
#include "tests/bench/prediction/kernel_cost.h"

/// Of what updates factors, from the tables, modes and coefficients that the host can read.
namespace shampoo::test {

inline double triangle(std::int64_t n) { return static_cast<double>(n * (n + 1) / 2); }

/// 2 Side^2 depth for every tile
inline double tile_flops(std::int64_t tiles, int side, std::int64_t depth) {
  return 2.0 * static_cast<double>(tiles) * side * side * static_cast<double>(depth);
}

template <typename Task>
std::int64_t members(const kernels::cuda::TaskList<Task>& list, int t) {
  return ((t + 1 < list.count ? list.first[t + 1] : list.blocks) - list.first[t]) /
         list.tasks[t].tiles;
}

/// body(task, row of a block) for all blocks of a list.
template <typename Task, typename Body>
void for_each_member(const kernels::cuda::TaskList<Task>& list, const Body& body) {
  for (int t = 0; t < list.count; ++t)
    for (std::int64_t m = 0; m < members(list, t); ++m)
      body(list.tasks[t], list.tasks[t].first_block + m);
}

/// L <- keep L + add G G^T for one block: its gradient, and one triangle read and written.
inline KernelCost gram_cost(const kernels::cuda::GramTask& task, std::size_t gradient_bytes,
                            std::size_t factor_bytes, int side) {
  const std::int64_t others = task.shape.before * task.shape.after;
  return {static_cast<double>(gradient_bytes) * static_cast<double>(task.shape.elements()) +
              2 * static_cast<double>(factor_bytes) * triangle(task.shape.side),
          tile_flops(task.tiles, side, others)};
}

inline KernelCost half_gram_cost(const kernels::cuda::HalfGram& kernel) {
  KernelCost cost;
  for_each_member(kernel.list, [&](const kernels::cuda::GramTask& task, std::int64_t row) {
    if (kernel.phase.accumulates(row) && kernel.phase.is_on_matrix_units(row))
      cost += gram_cost(task, 2, sizeof(float), kernels::cuda::HalfGram::side);
  });
  return cost;
}

template <typename Real, int Side>
KernelCost gram_cost(const kernels::cuda::Gram<Real, Side>& kernel) {
  const kernels::cuda::ProductPhase& phase = kernel.phase;
  KernelCost cost;
  for_each_member(kernel.list, [&](const kernels::cuda::GramTask& task, std::int64_t row) {
    if (!phase.accumulates(row)) return;
    const bool in_place = !kernel.gathered && phase.reads_in_place(row);
    if (Side == 128 && in_place && phase.is_on_matrix_units(row)) return;
    const std::int32_t tensor = phase.elements.blocks[row].tensor;
    cost += gram_cost(
        task, in_place ? size_of(phase.elements.tensors.gradient_types[tensor]) : sizeof(Real),
        sizeof(Real), Side);
  });
  return cost;
}

/// Sums of products, and one triangle of a factor read and written.
inline KernelCost add_cost(const kernels::cuda::AddGram& kernel) {
  KernelCost cost;
  for_each_member(kernel.list, [&](const kernels::cuda::GramTask& task, std::int64_t row) {
    if (!kernel.phase.accumulates(row) || kernel.phase.is_on_matrix_units(row)) return;
    const std::int64_t n = task.shape.side;
    cost.bytes += sizeof(float) * (static_cast<double>(n * n) + 2 * triangle(n));
  });
  return cost;
}

/// Gradients read, and their terms written.
inline KernelCost split_cost(const kernels::cuda::SplitGradients& kernel) {
  const kernels::cuda::ProductPhase& phase = kernel.phase;
  return cost_of_tiles(phase.elements, [&](const kernels::Tile& tile) {
    if (!phase.accumulates(tile.block) || phase.is_on_matrix_units(tile.block)) return 0.0;
    if (phase.elements.blocks[tile.block].elements < kernels::cuda::TermLayout::least_elements)
      return 0.0;
    return static_cast<double>(size_of(phase.elements.tensors.gradient_types[tile.tensor]) +
                               kernels::cuda::TermLayout::count * sizeof(kernels::Bfloat16));
  });
}

}  // namespace shampoo::test
