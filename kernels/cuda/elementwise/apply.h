// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/gradient.h"
#include "kernels/rules/update_rule.h"

namespace shampoo::kernels::cuda {

/// The tile's part of a segment that its block writes; null without segments.
SHAMPOO_BOTH inline StridedSpan segment_span(const Tile& tile, const Block& block, void* segments) {
  if (segments == nullptr) return packed(nullptr, block.wire_type);
  const auto first = static_cast<std::int64_t>(size_of(block.wire_type)) * (tile.flat - block.flat);
  return packed(static_cast<char*>(segments) + block.segment + first, block.wire_type);
}

/// Adds or assigns received segments to the values. One block of threads per tile.
struct ApplyTile {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 3;
  struct Shared {};

  TileTable elements;
  const Mode* modes = nullptr;
  const void* segments = nullptr;
  const std::int32_t* proceed = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

/// Elementwise::read_values(). One block of threads per tile.
struct ReadValues {
  static constexpr int threads = 256;
  struct Shared {};

  TileTable elements;
  void* masters = nullptr;
  void* slot = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

template <typename Real>
SHAMPOO_BOTH void copy_group(const StridedSpan& from, const StridedSpan& to, std::int32_t i,
                             std::int32_t count) {
  Real x[group_size];
  read(from, i, count, x);
  write(to, i, count, x);
}

/// W <- U, or W + U in `Real` where that is finite
template <typename Real>
SHAMPOO_BOTH void apply_group(Real (&u)[group_size], const StridedSpan& values, bool is_value,
                              std::int32_t i, std::int32_t count) {
  if (!is_value) {
    Real w[group_size];
    read(values, i, count, w);
    const Real threshold = overflow_threshold<Real>(values.type, values.type);
    for (int k = 0; k < group_size; ++k) u[k] = added(w[k], u[k], threshold);
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
  const bool in_double = moves_in_double(segment.type, values.type);
  const auto apply = [&](auto zero, std::int32_t i, std::int32_t count) {
    decltype(zero) u[group_size];
    read(segment, i, count, u);
    apply_group(u, values, b.is_value, i, count);
  };
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      if (in_double)
        apply(0.0, i, count);
      else
        apply(0.0f, i, count);
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void ReadValues::operator()(Threads& block, Shared&) const {
  const Tile tile = elements.tiles[block.index()];
  const Block& b = elements.blocks[tile.block];
  const StridedSpan values = value_span(elements.tensors, tile);
  const bool in_double = elements.arithmetic == Type::float64;
  const bool has_master = masters != nullptr && b.master >= 0;
  block.each([&](int thread) {
    for_each_group(block, thread, tile, [&](std::int32_t i, std::int32_t count) {
      if (has_master)
        copy_group<float>(values, weight_span(elements.tensors, tile, b, masters), i, count);
      if (slot != nullptr && in_double)
        copy_group<double>(values, slot_span<double>(slot, tile), i, count);
      else if (slot != nullptr)
        copy_group<float>(values, slot_span<float>(slot, tile), i, count);
    });
  });
}

}  // namespace shampoo::kernels::cuda
