// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/update.h"
#include "kernels/rules/gradient_rule.h"
#include "kernels/rules/update_rule.h"
#include "tests/bench/prediction/kernel_cost.h"

/// Bytes of passes over elements, from the tables, modes and coefficients that the host can read.
namespace shampoo::test {

/// bytes_of(tile) for each of its elements, over all tiles
template <typename BytesOf>
KernelCost cost_of_tiles(const kernels::TileTable& elements, const BytesOf& bytes_of) {
  KernelCost cost;
  for (std::int64_t i = 0; i < elements.tile_count; ++i) {
    const kernels::Tile& tile = elements.tiles[i];
    cost.bytes += bytes_of(tile) * tile.rows * tile.columns;
  }
  return cost;
}

/// Of W: a float32 master, or the value.
inline double weight_bytes(const kernels::TileTable& elements, const kernels::Tile& tile) {
  if (elements.blocks[tile.block].master >= 0) return sizeof(float);
  return static_cast<double>(size_of(elements.tensors.value_types[tile.tensor]));
}

inline KernelCost scan_cost(const kernels::TileTable& gradients) {
  return cost_of_tiles(gradients, [&](const kernels::Tile& tile) {
    if (gradients.tensors.gradients[tile.tensor] == nullptr) return 0.0;
    return static_cast<double>(size_of(gradients.tensors.gradient_types[tile.tensor]));
  });
}

/// V, and a companion, read and written.
inline double moments(const kernels::ElementwiseDirection& direction) {
  return (direction.second_moment != nullptr ? 2.0 : 0.0) +
         (direction.companion != nullptr ? 2.0 : 0.0);
}

/// Read: the gradient, W for L2 decay. Read and written: M where the block filters, V of both
/// directions. Written, if it is stored: P.
template <typename Real>
KernelCost filter_cost(const kernels::PassContext& context, const kernels::cuda::FilterInputs& pass,
                       bool stores) {
  return cost_of_tiles(context.elements, [&](const kernels::Tile& tile) {
    if (context.modes[tile.block] == kernels::Mode::absent) return 0.0;
    const kernels::Coefficients& c = context.coefficients[tile.block];
    double reals = moments(pass.preconditioner) + moments(pass.grafting) + (stores ? 1 : 0);
    if (kernels::FilterRule<Real>(c).filters) reals += 2;
    const double gradient =
        static_cast<double>(size_of(context.elements.tensors.gradient_types[tile.tensor]));
    return gradient + (c.l2 != 0 ? weight_bytes(context.elements, tile) : 0) + reals * sizeof(Real);
  });
}

/// Read, if it is stored: P. Read and written: the averaging's state, and the master. Written: the
/// segment, or in its place the value, which is read where an update is added to it.
template <typename Real>
KernelCost update_cost(const kernels::PassContext& context, const kernels::UpdatePass& pass,
                       bool stored) {
  return cost_of_tiles(context.elements, [&](const kernels::Tile& tile) {
    if (context.modes[tile.block] == kernels::Mode::absent) return 0.0;
    const kernels::Block& block = context.elements.blocks[tile.block];
    const kernels::UpdateRule<Real> rule(context.coefficients[tile.block], {}, pass.averaging);
    const bool has_master = block.master >= 0;
    const auto value =
        static_cast<double>(size_of(context.elements.tensors.value_types[tile.tensor]));
    const bool reads_weights = rule.decays || rule.iterates || has_master || block.is_value;

    double bytes = stored ? sizeof(Real) : 0;
    if (rule.averages || rule.iterates) bytes += 2 * sizeof(Real);
    if (reads_weights) bytes += weight_bytes(context.elements, tile);
    if (has_master) bytes += sizeof(float);
    if (pass.segment != nullptr) return bytes + static_cast<double>(size_of(block.wire_type));
    // What decay has read is still in the cache.
    return bytes + value + (block.is_value || reads_weights ? 0 : value);
  });
}

inline KernelCost apply_cost(const kernels::cuda::ApplyTile& kernel) {
  return cost_of_tiles(kernel.elements, [&](const kernels::Tile& tile) {
    if (kernel.modes[tile.block] == kernels::Mode::absent) return 0.0;
    const kernels::Block& block = kernel.elements.blocks[tile.block];
    const auto value =
        static_cast<double>(size_of(kernel.elements.tensors.value_types[tile.tensor]));
    return static_cast<double>(size_of(block.wire_type)) + (block.is_value ? 1 : 2) * value;
  });
}

}  // namespace shampoo::test
