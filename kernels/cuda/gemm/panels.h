// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/vector_access.h"

/// Operands of 16 bits on their way to matrix units (panel_unit.h).
namespace shampoo::kernels::cuda {

/// Lines by places of elements of 16 bits. [device]
template <typename Half>
struct HalfLines {
  const Half* data = nullptr;
  std::int64_t line = 1, place = 1;  ///< elements from one to the next
  std::int32_t line_count = 0, place_count = 0;

  SHAMPOO_BOTH bool along_places() const { return place < line; }
};

/// Rows in memory that threads share. Eight elements are 16 bytes; those of a row are permuted, so
/// that the same eight of eight rows lie in different banks: of 64 columns, the swizzling mode of
/// 128 bytes of [PTX ISA, matrices in shared memory].
template <typename Half, int Columns>
struct PermutedRows {
  static constexpr int rows = 128, columns = Columns;
  alignas(1024) Half v[rows * columns];

  SHAMPOO_BOTH static constexpr int offset(int row, int column) {
    return row * columns + ((column / 8) ^ (row % 8)) * 8 + column % 8;
  }
};

/// 128 lines by 64 places. Along: a row for each line. Otherwise a row for each place, of the first
/// 64 lines and then of the others.
template <typename Half, bool Along>
struct Panel {
  using Rows = PermutedRows<Half, 64>;
  static constexpr int lines = 128, places = 64;
  Rows rows;

  SHAMPOO_BOTH static constexpr int offset(int line, int place) {
    return Along ? Rows::offset(line, place)
                 : Rows::offset(line / Rows::columns * places + place, line % Rows::columns);
  }
};

/// What one of 256 threads copies to panels of the 128 lines from a first one on: eight elements of
/// every 32nd row.
template <typename Half, bool Along>
class PanelShare {
  using Target = Panel<Half, Along>;
  using Rows = typename Target::Rows;
  static constexpr int step = 32;  // rows

 public:
  PanelShare() = default;
  SHAMPOO_BOTH PanelShare(const HalfLines<Half>& all, std::int32_t first_line, int thread)
      : lines_(all.line_count - first_line - (Along ? thread / 8 : thread % 8 * 8)) {
    const std::int64_t along = Along ? all.place : all.line, across = Along ? all.line : all.place;
    const std::int32_t columns = Along ? all.place_count : all.line_count;
    first_ = all.data + first_line * all.line + thread / 8 * across + thread % 8 * 8 * along;
    aligned_ = along == 1 && across % 8 == 0 && columns % 8 == 0 &&
               reinterpret_cast<std::uintptr_t>(all.data) % 16 == 0;
  }

  /// Begins to copy places from first_place on, a multiple of 64, of what lies `offset` elements
  /// behind the lines; 0 for those that do not exist.
  SHAMPOO_BOTH void begin_copy(const HalfLines<Half>& all, std::int64_t offset,
                               std::int32_t first_place, int thread, Target& to) const {
    Half* const first = to.rows.v + Rows::offset(thread / 8, thread % 8 * 8);
    const Half* const from = first_ + offset + first_place * all.place;
    const std::int32_t places =
        all.place_count - first_place - (Along ? thread % 8 * 8 : thread / 8);
    if (aligned_) {
      for (int n = 0; n < Rows::rows / step; ++n)
        copy16(first + n * step * Rows::columns, from + line(n) * all.line + place(n) * all.place,
               line(n) < lines_ && place(n) < places);
      return;
    }
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int n = 0; n < Rows::rows / step; ++n)
      for (int k = 0; k < 8; ++k) {
        const int i = line(n) + (Along ? 0 : k), p = place(n) + (Along ? k : 0);
        first[n * step * Rows::columns + k] =
            i < lines_ && p < places ? from[i * all.line + p * all.place] : Half{0};
      }
  }

 private:
  /// From the thread's first row to number n of its rows.
  SHAMPOO_BOTH static constexpr int line(int n) {
    return Along ? n * step : n * step / Target::places * Rows::columns;
  }
  SHAMPOO_BOTH static constexpr int place(int n) { return Along ? 0 : n * step % Target::places; }

  const Half* first_ = nullptr;
  std::int32_t lines_ = 0;  ///< from the thread's first one on
  bool aligned_ = false;    ///< eight elements can be read in one access
};

/// What threads have copied to panels is seen by the units that multiply it after the next sync().
SHAMPOO_BOTH inline void publish_panels() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Pairs of panels in memory: one is multiplied while the next ones arrive.
inline constexpr int panel_stages = 3;

/// multiply(warp, step, pair) for steps from 0 on, while the pairs of the next ones arrive, which
/// begin_copy(thread, step, pair) begins to copy. A sync() must follow before a pair is written.
template <typename Threads, typename Pair, int stages, typename Copy, typename Multiply>
SHAMPOO_BOTH void for_each_pair_of_panels(Threads& block, Pair (&pairs)[stages], int steps,
                                          Copy&& begin_copy, Multiply&& multiply) {
  const auto begin = [&](int step, int stage) {
    block.each([&](int thread) {
      if (step < steps) begin_copy(thread, step, pairs[stage]);
      end_of_copies();
    });
  };
  for (int ahead = 0; ahead < stages - 1; ++ahead) begin(ahead, ahead);
  for (int step = 0, stage = 0; step < steps; ++step) {
    block.each([](int) {
      await_copies<stages - 2>();
      publish_panels();
    });
    block.sync();
    begin(step + stages - 1, stage == 0 ? stages - 1 : stage - 1);
    block.each_warp([&](int warp) { multiply(warp, step, pairs[stage]); });
    stage = stage + 1 == stages ? 0 : stage + 1;
  }
}

}  // namespace shampoo::kernels::cuda
