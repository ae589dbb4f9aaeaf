// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/gram.h"
#include "kernels/cuda/gemm/half_tile.h"

namespace shampoo::kernels::cuda {

/// Gram<float, 128> for gradients of 16 bits that are read where they are, on matrix units.
/// Products of their elements are exact and sums in float32; the gradient's scale s comes after: C
/// is s (s sum), with two roundings more than there, and sums of gradients that are not scaled must
/// be within float32's range, where s s need not be. One block of threads per lower tile.
struct HalfGram {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 2;  // one multiplies while the other adds
  static constexpr int side = 128;
  union Shared {
    HalfTile<Bfloat16, true>::Shared bfloat16_along;
    HalfTile<Bfloat16, false>::Shared bfloat16_across;
    HalfTile<Float16, true>::Shared float16_along;
    HalfTile<Float16, false>::Shared float16_across;

    SHAMPOO_BOTH auto& of(const HalfTile<Bfloat16, true>*) { return bfloat16_along; }
    SHAMPOO_BOTH auto& of(const HalfTile<Bfloat16, false>*) { return bfloat16_across; }
    SHAMPOO_BOTH auto& of(const HalfTile<Float16, true>*) { return float16_along; }
    SHAMPOO_BOTH auto& of(const HalfTile<Float16, false>*) { return float16_across; }
  };

  ProductPhase phase;
  TaskList<GramTask> list;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <bool Along, typename Half, typename Threads>
  SHAMPOO_BOTH void accumulate(Threads& block, Shared& shared, const HalfLines<Half>& g,
                               const GramTask& task, std::int64_t member,
                               std::int64_t number) const;
  template <typename Half, typename Threads>
  SHAMPOO_BOTH void read(Threads& block, Shared& shared, const GramTask& task, std::int64_t member,
                         std::int64_t number) const;
};

template <bool Along, typename Half, typename Threads>
SHAMPOO_BOTH void HalfGram::accumulate(Threads& block, Shared& shared, const HalfLines<Half>& g,
                                       const GramTask& task, std::int64_t member,
                                       std::int64_t number) const {
  using Tile = HalfTile<Half, Along>;
  const std::int64_t row = task.first_block + member, n = task.shape.side;
  const TileIndex tile = lower_tile(number);
  const auto top = static_cast<std::int32_t>(tile.row * side),
             start = static_cast<std::int32_t>(tile.column * side);
  auto& memory = shared.of(static_cast<const Tile*>(nullptr));
  typename Tile::template Sums<Threads> sums;
  Tile::multiply(block, memory, g, top, start, sums);

  const bool packed = is_packed(task.layout);
  float* const factor =
      static_cast<float*>(task.factors) + member * array_elements(task.layout, n, sizeof(float));
  const float keep = static_cast<float>(phase.coefficients[row].factor_keep);
  const float add = static_cast<float>(phase.coefficients[row].factor_add);
  const float scale = static_cast<float>(phase.scale_of(phase.elements.blocks[row].tensor));
  const LowerPart part{.first = factor + triangle_row(packed, n, top) + start,
                       .row_length = static_cast<int>(packed ? top : n + 1),
                       .growth = packed ? 1 : 0,
                       .rows = static_cast<int>(n - top < side ? n - top : side),
                       .below = static_cast<int>(top - start < side ? top - start : side)};
  Tile::for_each_sum(block, memory, sums, part, [&](float before, float sum) {
    return keep * before + add * (scale * (scale * sum));
  });
}

template <typename Half, typename Threads>
SHAMPOO_BOTH void HalfGram::read(Threads& block, Shared& shared, const GramTask& task,
                                 std::int64_t member, std::int64_t number) const {
  const Block& mine = phase.elements.blocks[task.first_block + member];
  HalfLines<Half> g;
  g.data = static_cast<const Half*>(phase.elements.tensors.gradients[mine.tensor]) + mine.gradient;
  const bool is_first_of_two = task.order == 2 && task.dimension == 0;
  g.line = is_first_of_two ? mine.gradient_row : mine.gradient_column;
  g.place = is_first_of_two ? mine.gradient_column : mine.gradient_row;
  g.line_count = static_cast<std::int32_t>(task.shape.side);
  g.place_count = static_cast<std::int32_t>(task.shape.before * task.shape.after);
  if (g.along_places())
    accumulate<true>(block, shared, g, task, member, number);
  else
    accumulate<false>(block, shared, g, task, member, number);
}

template <typename Threads>
SHAMPOO_BOTH void HalfGram::operator()(Threads& block, Shared& shared) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member;
  if (!phase.accumulates(row) || !phase.is_on_matrix_units(row)) return;
  const Type type = phase.elements.tensors.gradient_types[phase.elements.blocks[row].tensor];
  if (type == Type::bfloat16)
    read<Bfloat16>(block, shared, task, member, number);
  else
    read<Float16>(block, shared, task, member, number);
}

}  // namespace shampoo::kernels::cuda
