// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/gram.h"
#include "kernels/cuda/gemm/mirrored_tile.h"
#include "kernels/cuda/gemm/panel_unit.h"

namespace shampoo::kernels::cuda {

/// Elements (i, j) of a tile with i < rows and j <= i + below. Each row of the array is as long as
/// the one before it or, in a packed triangle, longer by one: growth. [device]
struct LowerPart {
  float* first = nullptr;
  int row_length = 0, growth = 0;  ///< row 0 is as long as both
  int rows = 0, below = 0;

  SHAMPOO_BOTH bool has(int i, int j) const { return i < rows && j <= i + below; }
  SHAMPOO_BOTH int offset(int i, int j) const {
    return i * row_length + i * (i + 1) / 2 * growth + j;
  }
  /// From row i to row i + 2.
  SHAMPOO_BOTH int two_rows(int i) const { return 2 * row_length + (2 * i + 3) * growth; }
};

/// Gram<float, 128> for gradients of 16 bits that are read where they are, on matrix units.
/// Products of their elements are exact and sums in float32; the gradient's scale s comes after: C
/// is s (s sum), with two roundings more than there, and sums of gradients that are not scaled must
/// be within float32's range, where s s need not be. One block of threads per lower tile.
struct HalfGram {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 2;  // on sm_90: one multiplies while the other adds
  static constexpr int side = 128;
  /// Rows lie 8 banks apart: half a warp writes 4 of 8 numbers without conflicts.
  static constexpr int pitch = side + 8;
  union Shared {
    /// Of a tile on the diagonal a pair is one panel.
    alignas(1024) unsigned char panels[panel_stages][2][sizeof(Panel<Bfloat16, true>)];
    float sums[side * pitch];
  };

  ProductPhase phase;
  TaskList<GramTask> list;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Threads>
  using Sums = typename Threads::template PerWarp<typename PanelUnit<Threads>::Sums>;

  /// multiply() of the gradient where it lies.
  template <typename Half, typename Threads>
  SHAMPOO_BOTH void multiply_gradient(Threads& block, Shared& shared, const GramTask& task,
                                      std::int64_t member, const TilePlace& at,
                                      Sums<Threads>& sums) const;
  /// Sums of g(i, p) g(j, p) over all places p.
  template <bool Along, typename Half, typename Threads>
  SHAMPOO_BOTH static void multiply(Threads& block, Shared& shared, const HalfLines<Half>& g,
                                    const TilePlace& at, Sums<Threads>& sums);
  /// x <- combine(x, sum) for the elements of `to`, threads along columns. What several elements
  /// load is under way before the first of them is stored.
  template <typename Threads, typename Combine>
  SHAMPOO_BOTH static void for_each_sum(Threads& block, Shared& shared, Sums<Threads>& sums,
                                        const LowerPart& to, Combine&& combine);
};

template <bool Along, typename Half, typename Threads>
SHAMPOO_BOTH void HalfGram::multiply(Threads& block, Shared& shared, const HalfLines<Half>& g,
                                     const TilePlace& at, Sums<Threads>& sums) {
  using Operand = Panel<Half, Along>;
  typename Threads::template PerThread<PanelShare<Half, Along>> left, right;
  block.each([&](int thread) {
    left[thread] = {g, static_cast<std::int32_t>(at.top), thread};
    right[thread] = {g, static_cast<std::int32_t>(at.left), thread};
  });
  const int right_panel = at.top == at.left ? 0 : 1;
  static_assert(sizeof(Operand) == sizeof(shared.panels[0][0]));
  for_each_pair_of_panels(
      block, reinterpret_cast<Operand(&)[panel_stages][2]>(shared.panels),
      static_cast<int>(ceiling(g.place_count, Operand::places)),
      [&](int thread, int step, Operand(&pair)[2]) {
        const std::int32_t place = step * Operand::places;
        left[thread].begin_copy(g, 0, place, thread, pair[0]);
        if (right_panel != 0) right[thread].begin_copy(g, 0, place, thread, pair[right_panel]);
      },
      [&](int warp, int, const Operand(&pair)[2]) {
        PanelUnit<Threads>::multiply_add(sums[warp], warp, pair[0], pair[right_panel]);
      });
}

template <typename Threads, typename Combine>
SHAMPOO_BOTH void HalfGram::for_each_sum(Threads& block, Shared& shared, Sums<Threads>& sums,
                                         const LowerPart& to, Combine&& combine) {
  constexpr int at_once = 8;
  static_assert(threads / side == 2 && side % (2 * at_once) == 0);
  struct alignas(8) Two {
    float v[2];
  };
  block.sync();  // panels are no longer read
  block.each_warp([&](int warp) {
    PanelUnit<Threads>::for_each_pair(sums[warp], warp, [&](int row, int column, float x, float y) {
      *reinterpret_cast<Two*>(shared.sums + row * pitch + column) = {{x, y}};
    });
  });
  block.sync();
  block.each([&](int thread) {
    const int j = thread % side;
    for (int first = thread / side; first < side; first += 2 * at_once) {
      int offset = to.offset(first, j), step = to.two_rows(first);
      int offsets[at_once];
      float x[at_once];
      for (int e = 0; e < at_once; ++e) {
        offsets[e] = offset;
        if (to.has(first + 2 * e, j)) x[e] = to.first[offset];
        offset += step;
        step += 4 * to.growth;
      }
      for (int e = 0; e < at_once; ++e)
        if (to.has(first + 2 * e, j))
          to.first[offsets[e]] = combine(x[e], shared.sums[(first + 2 * e) * pitch + j]);
    }
  });
}

template <typename Half, typename Threads>
SHAMPOO_BOTH void HalfGram::multiply_gradient(Threads& block, Shared& shared, const GramTask& task,
                                              std::int64_t member, const TilePlace& at,
                                              Sums<Threads>& sums) const {
  const Block& mine = phase.elements.blocks[task.first_block + member];
  HalfLines<Half> g;
  g.data = static_cast<const Half*>(phase.elements.tensors.gradients[mine.tensor]) + mine.gradient;
  const bool is_first_of_two = task.order == 2 && task.dimension == 0;
  g.line = is_first_of_two ? mine.gradient_row : mine.gradient_column;
  g.place = is_first_of_two ? mine.gradient_column : mine.gradient_row;
  g.line_count = static_cast<std::int32_t>(task.shape.side);
  g.place_count = static_cast<std::int32_t>(task.shape.before * task.shape.after);
  if (g.along_places())
    multiply<true>(block, shared, g, at, sums);
  else
    multiply<false>(block, shared, g, at, sums);
}

template <typename Threads>
SHAMPOO_BOTH void HalfGram::operator()(Threads& block, Shared& shared) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.shape.side;
  if (!phase.accumulates(row) || !phase.is_on_matrix_units(row)) return;
  const TilePlace at = tile_place(number, side);
  const bool packed = is_packed(task.layout);
  float* const factor =
      static_cast<float*>(task.factors) + member * array_elements(task.layout, n, sizeof(float));
  const auto below = static_cast<int>(at.top - at.left);
  const LowerPart part{.first = factor + triangle_row(packed, n, at.top) + at.left,
                       .row_length = static_cast<int>(packed ? at.top : n + 1),
                       .growth = packed ? 1 : 0,
                       .rows = static_cast<int>(n - at.top < side ? n - at.top : side),
                       .below = below < side ? below : side};
  // They come into the second-level cache while the sums are made.
  block.each([&](int thread) {
    for (int i = thread / 16, j = thread % 16 * 8; i < side; i += threads / 16)
      if (part.has(i, j)) prefetch(part.first + part.offset(i, j));
  });

  Sums<Threads> sums;
  if (phase.elements.tensors.gradient_types[phase.elements.blocks[row].tensor] == Type::bfloat16)
    multiply_gradient<Bfloat16>(block, shared, task, member, at, sums);
  else
    multiply_gradient<Float16>(block, shared, task, member, at, sums);

  const float keep = static_cast<float>(phase.coefficients[row].factor_keep);
  const float add = static_cast<float>(phase.coefficients[row].factor_add);
  const float scale = static_cast<float>(phase.scale_of(phase.elements.blocks[row].tensor));
  for_each_sum(block, shared, sums, part, [&](float before, float sum) {
    return keep * before + add * (scale * (scale * sum));
  });
}

}  // namespace shampoo::kernels::cuda
