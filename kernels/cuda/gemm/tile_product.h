// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/tile_operands.h"
#include "kernels/cuda/launch/thread_block.h"

namespace shampoo::kernels::cuda {

/// One Side x Side tile of a product of two matrices, by 256 threads. Every element is one chain of
/// fused multiply-adds over the contraction, so it depends on nothing but its operands.
///
/// A thread keeps (Side / 16)^2 sums. For Side = 128 it reads 16 numbers from shared memory for 64
/// multiply-adds, so that the multipliers are busy (a multiprocessor reads 32 words and multiplies
/// 128 in a cycle); a panel of 16 places costs 2 * 128 * 16 elements from memory for 128 * 128 * 16
/// multiply-adds: 32 per byte of float32, above the ridge of 7 of float32 arithmetic and memory.
/// Panels are double-buffered: the next one is on its way while one is multiplied.
template <typename Real, int Side>
class TileProduct {
 public:
  static constexpr int threads = 256;
  /// As many as their sums leave registers for.
  static constexpr int blocks_per_processor = Side == 64 && sizeof(Real) == sizeof(float) ? 2 : 1;

 private:
  static constexpr int depth = 16;                  ///< places of a panel
  static constexpr int slice_rows = 64;             ///< rows of a tile that are written at once
  static constexpr int slices = Side / slice_rows;  ///< a thread has 4 lines of each
  static constexpr int fetched = Side * depth / threads;
  static constexpr int quads = Side / 4 + 1;  ///< one more: other banks for other places

  struct alignas(16) Quad {
    Real v[4];
  };

 public:
  union Shared {
    Quad panels[2][2][depth][quads];
    Real slice[slice_rows][4 * quads];
  };
  struct Sums {
    Real v[4 * slices][4 * slices] = {};
  };

  /// Sums of left(i, p) right(j, p) over all places p for the tile that starts at (top, start).
  template <typename Threads, typename Left, typename Right, typename All>
  SHAMPOO_BOTH static void multiply(Threads& block, Shared& shared, const Left& left,
                                    std::int64_t top, const Right& right, std::int64_t start,
                                    All& sums) {
    typename Threads::template PerThread<Fetched> from_left, from_right;
    typename Threads::template PerThread<Lines> lines;
    block.each([&](int thread) {
      lines[thread].left = left.line_offset(top + thread % Side);
      lines[thread].right = right.line_offset(start + thread % Side);
      fetch(left, top, 0, thread, lines[thread].left, from_left[thread]);
      fetch(right, start, 0, thread, lines[thread].right, from_right[thread]);
    });
    int turn = 0;
    for (std::int64_t place = 0; place < left.place_count; place += depth) {
      block.each([&](int thread) {
        put(left, top, place, thread, from_left[thread], shared.panels[turn][0]);
        put(right, start, place, thread, from_right[thread], shared.panels[turn][1]);
      });
      block.sync();
      block.each([&](int thread) {
        if (place + depth < left.place_count) {
          fetch(left, top, place + depth, thread, lines[thread].left, from_left[thread]);
          fetch(right, start, place + depth, thread, lines[thread].right, from_right[thread]);
        }
        add(shared.panels[turn][0], shared.panels[turn][1], thread, sums[thread]);
      });
      turn = 1 - turn;
    }
    block.sync();
  }

  /// body(i, j, sum) for all elements of the tile, threads along j.
  template <typename Threads, typename All, typename Body>
  SHAMPOO_BOTH static void for_each_sum(Threads& block, Shared& shared, All& sums, Body&& body) {
    for (int slice = 0; slice < slices; ++slice) {
      block.each([&](int thread) { put_slice(slice, thread, sums[thread], shared); });
      block.sync();
      block.each([&](int thread) {
        const int j = thread % Side;
        for (int i = thread / Side; i < slice_rows; i += threads / Side)
          body(slice * slice_rows + i, j, shared.slice[i][j]);
      });
      block.sync();
    }
  }

 private:
  struct Fetched {
    Real v[fetched];
  };
  struct Lines {
    std::int64_t left = 0, right = 0;
  };
  /// Element of a panel that a thread moves.
  struct Spot {
    int line, place;
  };

  SHAMPOO_BOTH static constexpr Spot spot(bool along_places, int thread, int number) {
    return along_places ? Spot{thread / depth + threads / depth * number, thread % depth}
                        : Spot{thread % Side, thread / Side + threads / Side * number};
  }

  template <typename Operand>
  SHAMPOO_BOTH static void fetch(const Operand& from, std::int64_t line, std::int64_t place,
                                 int thread, std::int64_t line_offset, Fetched& to) {
    from.with_values([&](auto&& value) {
      if (from.along_places(line, place))
        for (int e = 0; e < fetched; ++e) {
          const Spot at = spot(true, thread, e);
          const std::int64_t l = line + at.line, p = place + at.place;
          to.v[e] = l < from.line_count && p < from.place_count
                        ? value(from.offset(from.line_offset(l), l, p))
                        : Real(0);
        }
      else
        for (int e = 0; e < fetched; ++e) {
          const Spot at = spot(false, thread, e);
          const std::int64_t l = line + at.line, p = place + at.place;
          to.v[e] = l < from.line_count && p < from.place_count
                        ? value(from.offset(line_offset, l, p))
                        : Real(0);
        }
    });
  }

  template <typename Operand>
  SHAMPOO_BOTH static void put(const Operand& from, std::int64_t line, std::int64_t place,
                               int thread, const Fetched& values, Quad (&panel)[depth][quads]) {
    const bool along_places = from.along_places(line, place);
    for (int e = 0; e < fetched; ++e) {
      const Spot at = spot(along_places, thread, e);
      panel[at.place][at.line / 4].v[at.line % 4] = values.v[e];
    }
  }

  SHAMPOO_BOTH static void add(const Quad (&left)[depth][quads], const Quad (&right)[depth][quads],
                               int thread, Sums& sums) {
    for (int p = 0; p < depth; ++p) {
      Quad a[slices], b[slices];
      for (int s = 0; s < slices; ++s) {
        a[s] = left[p][s * 16 + thread / 16];
        b[s] = right[p][s * 16 + thread % 16];
      }
      for (int i = 0; i < 4 * slices; ++i)
        for (int j = 0; j < 4 * slices; ++j)
          sums.v[i][j] = multiply_add(a[i / 4].v[i % 4], b[j / 4].v[j % 4], sums.v[i][j]);
    }
  }

  SHAMPOO_BOTH static void put_slice(int slice, int thread, const Sums& sums, Shared& shared) {
    const int row = thread / 16 * 4, column = thread % 16 * 4;
    for (int s = 0; s < slices; ++s)
      if (s == slice)
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4 * slices; ++j)
            shared.slice[row + i][j / 4 * 64 + column + j % 4] = sums.v[4 * s + i][j];
  }

  SHAMPOO_BOTH static Real multiply_add(Real a, Real b, Real c) { return a * b + c; }
};

}  // namespace shampoo::kernels::cuda
