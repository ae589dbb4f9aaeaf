// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/cuda/gemm/mirrored_tile.h"
#include "kernels/cuda/gemm/panel_unit.h"
#include "kernels/cuda/gemm/square_products.h"
#include "kernels/cuda/launch/batch.h"

namespace shampoo::kernels::cuda {

/// C <- of_product A B + of_a A + of_d D + of_identity I for matrices that have forms, of which the
/// lower triangle stands for both, on matrix units. Operands that are split are multiplied as
/// low high + high low + high high; low low, 2^-22 of the whole, is left out. C overlaps none of
/// the others. One block of threads per lower tile.
struct FormedProduct {
  static constexpr int threads = 256;
  static constexpr int blocks_per_processor = 2;  // one multiplies while the other combines
  static constexpr int side = 128;
  using Tile = PermutedRows<Float16, side>;
  using Operand = Panel<Float16, true>;
  union Shared {
    Operand panels[panel_stages][2];
    Tile tiles[panel_stages];
  };

  Batch<FourOf> batch;
  Form operands = Form::split;  ///< of A, B and D
  float of_product = 1, of_a = 0, of_d = 0, of_identity = 0;
  Form form = Form::split;  ///< of C

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;

 private:
  template <typename Threads>
  using Sums = typename Threads::template PerWarp<typename PanelUnit<Threads>::Sums>;

  /// The tile from (at.top, at.left) on of A B, or B^T.
  template <typename Threads>
  SHAMPOO_BOTH void multiply(Threads& block, Shared& shared, const FormedMatrix& a,
                             const FormedMatrix& b, const TilePlace& at, Sums<Threads>& sums) const;
  /// Sums <- elements of C.
  template <typename Threads>
  SHAMPOO_BOTH void combine(Threads& block, Shared& shared, const FormedMatrix& a,
                            const FormedMatrix& d, const TilePlace& at, Sums<Threads>& sums) const;
  /// The tile and its mirror image of the high or low part of C <- those elements.
  template <typename Threads>
  SHAMPOO_BOTH static void store_part(Threads& block, Shared& shared, const FormedMatrix& c,
                                      bool low, const TilePlace& at, Sums<Threads>& sums);
  template <typename Threads>
  SHAMPOO_BOTH static void store_numbers(Threads& block, const FormedMatrix& c, const TilePlace& at,
                                         Sums<Threads>& sums);
};

template <typename Threads>
SHAMPOO_BOTH void FormedProduct::multiply(Threads& block, Shared& shared, const FormedMatrix& a,
                                          const FormedMatrix& b, const TilePlace& at,
                                          Sums<Threads>& sums) const {
  using Unit = PanelUnit<Threads>;
  const auto n = static_cast<std::int32_t>(a.side());
  const auto lines_of = [n](const FormedMatrix& matrix) {
    return HalfLines<Float16>{matrix.parts(), n, 1, n, n};
  };
  const HalfLines<Float16> left = lines_of(a), right = lines_of(b);
  typename Threads::template PerThread<PanelShare<Float16, true>> from_a, from_b;
  block.each([&](int thread) {
    from_a[thread] = {left, static_cast<std::int32_t>(at.top), thread};
    from_b[thread] = {right, static_cast<std::int32_t>(at.left), thread};
  });
  // Steps of the low parts of A, and of B; then of none.
  const auto steps = static_cast<int>(ceiling(n, Operand::places));
  const int low_a = operands == Form::split ? steps : 0, of_low = 2 * low_a;
  for_each_pair_of_panels(
      block, shared.panels, of_low + steps,
      [&](int thread, int step, Operand(&pair)[2]) {
        const bool a_is_low = step < low_a, b_is_low = !a_is_low && step < of_low;
        const int first = a_is_low ? 0 : b_is_low ? low_a : of_low;
        const std::int32_t place = (step - first) * Operand::places;
        from_a[thread].begin_copy(left, a_is_low ? a.to_low() : 0, place, thread, pair[0]);
        from_b[thread].begin_copy(right, b_is_low ? b.to_low() : 0, place, thread, pair[1]);
      },
      [&](int warp, int step, const Operand(&pair)[2]) {
        // Where nothing is split, sums are still 0.
        if (step == of_low) Unit::scale(sums[warp], 1 / FormedMatrix::low_scale);
        Unit::multiply_add(sums[warp], warp, pair[0], pair[1]);
      });
}

template <typename Threads>
SHAMPOO_BOTH void FormedProduct::combine(Threads& block, Shared& shared, const FormedMatrix& a,
                                         const FormedMatrix& d, const TilePlace& at,
                                         Sums<Threads>& sums) const {
  const auto below = static_cast<int>(at.top - at.left);
  block.each_warp([&](int warp) {
    PanelUnit<Threads>::for_each_pair(sums[warp], warp,
                                      [&](int row, int column, float& x, float& y) {
                                        x *= of_product;
                                        y *= of_product;
                                        if (column == row + below) x += of_identity;
                                        if (column + 1 == row + below) y += of_identity;
                                      });
  });
  const bool splits = operands == Form::split;
  const auto add = [&](const FormedMatrix& from, float weight) {
    if (weight == 0) return;
    block.sync();  // what was there is no longer read
    for_each_eight<side>(block, [&](int row, int column) {
      for (int part = 0; part < (splits ? 2 : 1); ++part)
        from.begin_copy(part == 1, at.top + row, at.left + column,
                        shared.tiles[part].v + Tile::offset(row, column));
    });
    block.each([](int) {
      end_of_copies();
      await_copies<0>();
    });
    block.sync();
    block.each_warp([&](int warp) {
      PanelUnit<Threads>::for_each_pair(
          sums[warp], warp, [&](int row, int column, float& x, float& y) {
            const auto add_part = [&](int part, float factor) {
              const auto two = *reinterpret_cast<const HalfPair*>(shared.tiles[part].v +
                                                                  Tile::offset(row, column));
              x += factor * widened(two.v[0]);
              y += factor * widened(two.v[1]);
            };
            add_part(0, weight);
            if (splits) add_part(1, weight / FormedMatrix::low_scale);
          });
    });
  };
  add(a, of_a);
  add(d, of_d);
}

template <typename Threads>
SHAMPOO_BOTH void FormedProduct::store_part(Threads& block, Shared& shared, const FormedMatrix& c,
                                            bool low, const TilePlace& at, Sums<Threads>& sums) {
  const bool on_diagonal = at.top == at.left;
  Tile &lower = shared.tiles[0], &upper = shared.tiles[on_diagonal ? 0 : 1];
  block.sync();  // what was there is no longer read
  block.each_warp([&](int warp) {
    PanelUnit<Threads>::for_each_pair(
        sums[warp], warp, [&](int row, int column, float& x, float& y) {
          if (on_diagonal && column > row) return;
          const HalfPair two = nearest_halves(x, y);
          if (!on_diagonal || column < row)
            *reinterpret_cast<HalfPair*>(lower.v + Tile::offset(row, column)) = two;
          upper.v[Tile::offset(column, row)] = two.v[0];
          if (!on_diagonal || column < row) upper.v[Tile::offset(column + 1, row)] = two.v[1];
          if (low) return;
          x = (x - widened(two.v[0])) * FormedMatrix::low_scale;
          y = (y - widened(two.v[1])) * FormedMatrix::low_scale;
        });
  });
  block.sync();
  for_each_eight<side>(block, [&](int row, int column) {
    c.store_eight(low, at.top + row, at.left + column, lower.v + Tile::offset(row, column));
    if (!on_diagonal)
      c.store_eight(low, at.left + row, at.top + column, upper.v + Tile::offset(row, column));
  });
}

template <typename Threads>
SHAMPOO_BOTH void FormedProduct::store_numbers(Threads& block, const FormedMatrix& c,
                                               const TilePlace& at, Sums<Threads>& sums) {
  const std::int64_t n = c.side();
  float* const lower = c.numbers() + at.top * n + at.left;
  float* const upper = c.numbers() + at.left * n + at.top;
  const auto below = static_cast<int>(at.top - at.left), rows = static_cast<int>(n - at.top);
  const auto next = static_cast<int>(n);
  block.each_warp([&](int warp) {
    PanelUnit<Threads>::for_each_pair(sums[warp], warp, [&](int row, int column, float x, float y) {
      if (row >= rows || column > row + below) return;
      lower[row * next + column] = x;
      upper[column * next + row] = x;
      if (column == row + below) return;
      lower[row * next + column + 1] = y;
      upper[(column + 1) * next + row] = y;
    });
  });
}

template <typename Threads>
SHAMPOO_BOTH void FormedProduct::operator()(Threads& block, Shared& shared) const {
  const auto item = batch.item(block.index());
  const FormedMatrix a = formed<float>(item.group.a, item.member, operands);
  const FormedMatrix b = formed<float>(item.group.b, item.member, operands);
  const FormedMatrix d = formed<float>(item.group.d, item.member, operands);
  const FormedMatrix c = formed<float>(item.group.c, item.member, form);
  const TilePlace at = tile_place(item.part, side);
  Sums<Threads> sums;
  multiply(block, shared, a, b, at, sums);
  combine(block, shared, a, d, at, sums);
  if (form == Form::half || form == Form::split) {
    store_part(block, shared, c, false, at, sums);
    if (form == Form::split) store_part(block, shared, c, true, at, sums);
  } else {
    store_numbers(block, c, at, sums);
  }
}

}  // namespace shampoo::kernels::cuda
