// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/apply.h"
#include "kernels/cuda/elementwise/gradient.h"
#include "kernels/rules/update_rule.h"

namespace shampoo::kernels::cuda {

/// Elementwise::pack_values(). One block of threads per tile.
struct PackTile {
  static constexpr int threads = 256;
  struct Shared {};

  TileTable elements;
  void* segments = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const {
    const Tile tile = elements.tiles[block.index()];
    const StridedSpan values = value_span(elements.tensors, tile);
    const StridedSpan segment = segment_span(tile, elements.blocks[tile.block], segments);
    const bool in_double = moves_in_double(segment.type, values.type);
    block.each([&](int thread) {
      for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
        if (in_double)
          copy_group<double>(values, segment, i, count);
        else
          copy_group<float>(values, segment, i, count);
      });
    });
  }
};

/// Elementwise::evaluate(). One block of threads per tile.
template <typename Real>
struct EvaluateTile {
  static constexpr int threads = 256;
  struct Shared {};

  TileTable elements;
  EvaluationPass pass;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const {
    const Tile tile = elements.tiles[block.index()];
    const Block& b = elements.blocks[tile.block];
    const EvaluationRule<Real> rule(pass.extrapolations[tile.block]);
    const StridedSpan weights = weight_span(elements.tensors, tile, b, pass.masters);
    const StridedSpan iterate = slot_span<Real>(pass.iterate, tile);
    const StridedSpan segment = segment_span(tile, b, pass.segment);
    block.each([&](int thread) {
      for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
        Real w[group_size], z[group_size];
        read(weights, i, count, w);
        read(iterate, i, count, z);
        for (int k = 0; k < group_size; ++k) w[k] = rule(w[k], z[k]);
        write(segment, i, count, w);
      });
    });
  }
};

}  // namespace shampoo::kernels::cuda
