// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/gram.h"

/// Gram matrices of float32 from a library's products of bfloat16: G = H + M + L, three terms of 8
/// bits that leave out at most 2^-27 of an element, and
///
///     G G^T = H H^T + (H M^T + M H^T) + (H L^T + L H^T) + M M^T
///
/// but for 2^-25 sum_k |g_ik g_jk| at most. What is in brackets is twice the mean of one product
/// and its transpose. Terms have the range of float32: nothing has to be scaled.
namespace shampoo::kernels::cuda {

/// Where terms of a block lie, in memory with 8 bytes for every element of the flat slots: one
/// after the other, from multiples of 16 bytes.
struct TermLayout {
  static constexpr int count = 3;
  /// Blocks with fewer elements may not fit, and are not for a library.
  static constexpr std::int64_t least_elements = 64 * 64;

  /// Elements of terms before those of a block.
  SHAMPOO_BOTH static constexpr std::int64_t before(std::int64_t flat) { return 4 * flat; }
  /// Elements from one term of a block to the next.
  SHAMPOO_BOTH static constexpr std::int64_t stride(std::int64_t elements) {
    return ceiling(elements, 8) * 8;
  }
};

/// Terms <- G of every block whose statistics HalfGram leaves. One block of threads per tile.
struct SplitGradients {
  static constexpr int threads = 256;
  struct Shared {};

  ProductPhase phase;
  const float* masters = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// L <- keep L + add (C + C^T) / 2 for the same blocks, lower triangles, with the task's sums C.
/// One block of threads per lower tile.
struct AddGram {
  static constexpr int threads = 256;
  static constexpr int side = mirrored_side;
  struct Shared {
    float mirrored[side][side + 1];
  };

  ProductPhase phase;
  TaskList<GramTask> list;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Threads>
SHAMPOO_BOTH void SplitGradients::operator()(Threads& threads_of_block, Shared&) const {
  const Tile tile = phase.elements.tiles[threads_of_block.index()];
  const Block& block = phase.elements.blocks[tile.block];
  if (!phase.accumulates(tile.block) || phase.is_on_matrix_units(tile.block)) return;
  if (block.elements < TermLayout::least_elements) return;
  const double scale = phase.scale_of(tile.tensor);
  Bfloat16* const to = static_cast<Bfloat16*>(phase.dense) + TermLayout::before(block.flat) +
                       (tile.flat - block.flat);
  const std::int64_t stride = TermLayout::stride(block.elements);
  for_each_gradient<float>(threads_of_block, phase, tile, scale, masters, [&](int e, float g) {
    float rest = g;
    for (int term = 0; term < TermLayout::count; ++term) {
      const Bfloat16 nearest = to_bfloat16(rest);
      to[term * stride + e] = nearest;
      rest -= to_float(nearest);
    }
  });
}

template <typename Threads>
SHAMPOO_BOTH void AddGram::operator()(Threads& block, Shared& shared) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.shape.side;
  if (!phase.accumulates(row) || phase.is_on_matrix_units(row)) return;
  const TileIndex tile = lower_tile(number);
  const std::int64_t top = tile.row * side, left = tile.column * side;
  const float* const sums = task.sums + member * n * n;
  block.each([&](int thread) {
    for (int e = thread; e < side * side; e += threads) {
      const std::int64_t j = left + e / side, i = top + e % side;
      if (i < n && j < n) shared.mirrored[e % side][e / side] = sums[j * n + i];
    }
  });
  block.sync();
  const bool packed = is_packed(task.layout);
  float* const factor =
      static_cast<float*>(task.factors) + member * array_elements(task.layout, n, sizeof(float));
  const float keep = static_cast<float>(phase.coefficients[row].factor_keep);
  const float add = static_cast<float>(phase.coefficients[row].factor_add);
  constexpr int rows = threads / side, at_once = 8;
  block.each([&](int thread) {
    const std::int64_t j = left + thread % side;
    for (int first = thread / side; first < side; first += rows * at_once) {
      float before[at_once] = {}, sum[at_once] = {};
      // All reads are under way before the first write.
      for (int e = 0; e < at_once; ++e) {
        const int r = first + e * rows;
        const std::int64_t i = top + r;
        if (i >= n || j > i) continue;
        before[e] = factor[triangle_row(packed, n, i) + j];
        sum[e] = 0.5F * sums[i * n + j] + 0.5F * shared.mirrored[r][thread % side];
      }
      for (int e = 0; e < at_once; ++e) {
        const std::int64_t i = top + first + e * rows;
        if (i >= n || j > i) continue;
        factor[triangle_row(packed, n, i) + j] = keep * before[e] + add * sum[e];
      }
    }
  });
}

}  // namespace shampoo::kernels::cuda
