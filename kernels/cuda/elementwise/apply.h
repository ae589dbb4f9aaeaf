// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/gradient.h"
#include "kernels/rules/update_rule.h"

namespace shampoo::kernels::cuda {

/// Adds or assigns received segments to the values. One block of threads per tile.
struct ApplyTile {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 4;
  struct Shared {};

  TileTable elements;
  const Mode* modes = nullptr;
  const void* segments = nullptr;
  const std::int32_t* proceed = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// masters <- values, for blocks that have one. One block of threads per tile.
struct ReadValues {
  static constexpr int threads = 256;
  struct Shared {};

  TileTable elements;
  void* masters = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// W <- U, or W + U in `Real`
template <typename Real>
SHAMPOO_BOTH void apply_group(const StridedSpan& segment, const StridedSpan& values, bool is_value,
                              std::int32_t i, std::int32_t count) {
  Real u[group_size], w[group_size];
  read(segment, i, count, u);
  if (!is_value) {
    read(values, i, count, w);
    for (int k = 0; k < group_size; ++k) u[k] = added(w[k], u[k]);
  }
  write(values, i, count, u);
}

template <typename Threads>
SHAMPOO_BOTH void ApplyTile::operator()(Threads& block, Shared&) const {
  if (*proceed == 0) return;
  const Tile tile = elements.tiles[block.index()];
  if (modes[tile.block] == Mode::absent) return;
  const Block& b = elements.blocks[tile.block];
  const auto received = b.segment + static_cast<std::int64_t>(size_of(b.wire_type)) * tile.flat;
  const StridedSpan segment =
      packed(const_cast<char*>(static_cast<const char*>(segments)) + received, b.wire_type);
  const StridedSpan values = value_span(elements.tensors, tile);
  // The wider of both types.
  const bool in_double = segment.type == Type::float64 || values.type == Type::float64;
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      if (in_double)
        apply_group<double>(segment, values, b.is_value, i, count);
      else
        apply_group<float>(segment, values, b.is_value, i, count);
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void ReadValues::operator()(Threads& block, Shared&) const {
  const Tile tile = elements.tiles[block.index()];
  const Block& b = elements.blocks[tile.block];
  if (b.master < 0) return;
  const StridedSpan values = value_span(elements.tensors, tile);
  const StridedSpan to = weight_span(elements.tensors, tile, b, masters);
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      float w[group_size];
      read(values, i, count, w);
      write(to, i, count, w);
    });
  });
}

}  // namespace shampoo::kernels::cuda
