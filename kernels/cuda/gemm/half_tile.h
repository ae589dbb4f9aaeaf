// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/matrix_unit.h"
#include "kernels/cuda/launch/vector_access.h"

namespace shampoo::kernels::cuda {

/// Lines by places of elements of 16 bits. [device]
template <typename Half>
struct HalfLines {
  const Half* data = nullptr;
  std::int64_t line = 1, place = 1;  ///< elements from one to the next
  std::int32_t line_count = 0, place_count = 0;

  SHAMPOO_BOTH bool along_places() const { return place < line; }
  /// True if eight consecutive elements, from a multiple of eight, can be read in one access, which
  /// are places of one line, or, unless along, the other way round.
  SHAMPOO_BOTH bool is_aligned(bool along) const {
    const std::int64_t step = along ? place : line, row = along ? line : place;
    return step == 1 && row % 8 == 0 && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  }
};

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

/// One 128 x 128 tile of a product of two matrices of 16 bits, by 8 warps of 64 x 32 each. Two
/// panels of 32 places cost 16 KiB from memory for 2^20 flops, 64 per byte; on the diagonal they
/// are one.
template <typename Half, bool Along>
class HalfTile {
 public:
  static constexpr int threads = 256;
  static constexpr int side = 128;

 private:
  static constexpr int depth = 32;
  /// Panels in shared memory: one is multiplied while the next ones arrive.
  static constexpr int stages = 3;
  static constexpr int slice_rows = UnitShape::left;
  /// 8 elements more than needed: rows of a panel start in other banks.
  static constexpr int pitch = (Along ? depth : side) + 8;
  static constexpr int panel = (Along ? side : depth) * pitch;
  /// A half warp writes four rows of 8 numbers: those lie 8 banks apart.
  static constexpr int slice_pitch = side + 8;
  static constexpr int vectors = side * depth / 8 / threads;

 public:
  union Shared {
    alignas(16) Half panels[stages][2][panel];
    alignas(16) float slice[slice_rows * slice_pitch];
  };
  template <typename Threads>
  using Sums = typename Threads::template PerWarp<typename MatrixUnit<Threads>::Sums>;

  /// Sums of a(i, p) a(j, p) over all places p for the tile that starts at (top, start).
  template <typename Threads>
  SHAMPOO_BOTH static void multiply(Threads& block, Shared& shared, const HalfLines<Half>& a,
                                    std::int32_t top, std::int32_t start, Sums<Threads>& sums) {
    typename Threads::template PerThread<Source> left, right;
    const bool aligned = a.is_aligned(Along);
    const int second = top == start ? 0 : 1;  // panel
    block.each([&](int thread) {
      left[thread] = Source(a, aligned, top, thread);
      right[thread] = Source(a, aligned, start, thread);
    });
    const auto begin_copy = [&](std::int32_t place) {
      auto& panels = shared.panels[place / depth % stages];
      block.each([&](int thread) {
        if (place < a.place_count) {
          copy(a, left[thread], top, place, thread, panels[0]);
          if (second != 0) copy(a, right[thread], start, place, thread, panels[second]);
        }
        end_of_copies();
      });
    };
    for (int ahead = 0; ahead < stages - 1; ++ahead) begin_copy(ahead * depth);
    for (std::int32_t place = 0; place < a.place_count; place += depth) {
      block.each([](int) { await_copies<stages - 2>(); });
      block.sync();
      begin_copy(place + (stages - 1) * depth);
      const auto& panels = shared.panels[place / depth % stages];
      block.each_warp([&](int warp) { add<Threads>(panels[0], panels[second], warp, sums[warp]); });
    }
    block.sync();
  }

  /// x <- combine(x, sum) for the elements of `to`, threads along columns. What several elements
  /// load is under way before the first of them is stored.
  template <typename Threads, typename Combine>
  SHAMPOO_BOTH static void for_each_sum(Threads& block, Shared& shared, Sums<Threads>& sums,
                                        const LowerPart& to, Combine&& combine) {
    constexpr int at_once = 8;
    static_assert(threads / side == 2 && slice_rows % (2 * at_once) == 0);
    for (int slice = 0; slice < side / slice_rows; ++slice) {
      block.each_warp([&](int warp) {
        if (warp / 4 == slice)
          MatrixUnit<Threads>::put(sums[warp], shared.slice + warp % 4 * UnitShape::right,
                                   slice_pitch);
      });
      block.sync();
      block.each([&](int thread) {
        const int j = thread % side;
        for (int first = thread / side; first < slice_rows; first += 2 * at_once) {
          const int i = slice * slice_rows + first;
          int offset = to.offset(i, j), step = to.two_rows(i);
          int offsets[at_once];
          float x[at_once];
          for (int e = 0; e < at_once; ++e) {
            offsets[e] = offset;
            if (to.has(i + 2 * e, j)) x[e] = to.first[offset];
            offset += step;
            step += 4 * to.growth;
          }
          for (int e = 0; e < at_once; ++e)
            if (to.has(i + 2 * e, j))
              to.first[offsets[e]] = combine(x[e], shared.slice[(first + 2 * e) * slice_pitch + j]);
        }
      });
      block.sync();
    }
  }

 private:
  /// Eight elements that a thread copies from memory to a panel.
  struct Spot {
    std::int32_t line, place;  ///< of the first, in the panel
    int in_panel;

    /// Number e of a thread's.
    SHAMPOO_BOTH Spot(int thread, int e) {
      constexpr unsigned row = (Along ? depth : side) / 8;
      const auto n = static_cast<unsigned>(thread);
      // A quarter warp that fills two rows takes r and r + 4, which have no bank in common.
      const unsigned first = row == 4 ? n / 32 * 8 + n / 8 % 4 + n / 4 % 2 * 4 : n / row;
      const int across = static_cast<int>(first + threads / row * e);
      const int along = static_cast<int>(n % row * 8);
      line = Along ? across : along;
      place = Along ? along : across;
      in_panel = across * pitch + along;
    }
  };

  /// Where a thread's elements of the next panel are.
  struct Source {
    /// Null: a line of them does not exist, or they are not aligned.
    const Half* from[vectors] = {};

    Source() = default;
    SHAMPOO_BOTH Source(const HalfLines<Half>& a, bool aligned, std::int32_t first_line,
                        int thread) {
      for (int e = 0; e < vectors; ++e) {
        const Spot at(thread, e);
        const std::int32_t line = first_line + at.line;
        if (aligned && line + (Along ? 1 : 8) <= a.line_count)
          from[e] = a.data + line * a.line + at.place * a.place;
      }
    }
  };

  /// Begins to copy a panel from `first_place` on. The last one is copied number by number.
  SHAMPOO_BOTH static void copy(const HalfLines<Half>& a, Source& source, std::int32_t first_line,
                                std::int32_t first_place, int thread, Half* panel_start) {
    const bool whole = first_place + depth <= a.place_count;
    for (int e = 0; e < vectors; ++e) {
      const Spot at(thread, e);
      Half* const to = panel_start + at.in_panel;
      if (whole && source.from[e] != nullptr) {
        copy16(to, source.from[e]);
        source.from[e] += Along ? depth : depth * a.place;
        continue;
      }
      // Unrolled, it would take the registers of a second block.
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
      for (int k = 0; k < 8; ++k) {
        const std::int32_t line = first_line + at.line + (Along ? 0 : k);
        const std::int32_t place = first_place + at.place + (Along ? k : 0);
        const bool exists = line < a.line_count && place < a.place_count;
        to[k] = exists ? a.data[line * a.line + place * a.place] : Half{0};
      }
    }
  }

  template <typename Threads>
  SHAMPOO_BOTH static void add(const Half* left, const Half* right, int warp,
                               typename MatrixUnit<Threads>::Sums& sums) {
    constexpr int to_line = Along ? pitch : 1, to_place = Along ? 1 : pitch;
    const auto from = [](const Half* operand) {
      return [=](int line, int place) { return operand + line * to_line + place * to_place; };
    };
    left += warp / 4 * UnitShape::left * to_line;
    right += warp % 4 * UnitShape::right * to_line;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int p = 0; p < depth; p += UnitShape::depth)
      MatrixUnit<Threads>::template multiply_add<Along>(sums, from(left + p * to_place),
                                                        from(right + p * to_place));
  }
};

}  // namespace shampoo::kernels::cuda
