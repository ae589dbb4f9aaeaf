// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/half_tile.h"
#include "kernels/cuda/gemm/matrix_unit.h"
#include "kernels/cuda/launch/vector_access.h"

namespace shampoo::kernels::cuda {

/// 128 lines in memory that threads share. Eight places are 16 bytes; those of a line are permuted,
/// so that the same eight of eight lines lie in different banks: of 64 places, the swizzling mode
/// of 128 bytes of [PTX ISA, matrices in shared memory].
template <int Places>
struct PermutedLines {
  static constexpr int lines = 128, places = Places;
  alignas(1024) Float16 v[lines * places];

  SHAMPOO_BOTH static constexpr int offset(int line, int place) {
    return line * places + ((place / 8) ^ (line % 8)) * 8 + place % 8;
  }
};
using Panel = PermutedLines<64>;

/// Eight places of every 32nd line, which one of 256 threads copies to panels of the 128 lines from
/// a first one on.
class PanelShare {
  static constexpr int step = 32;  // lines

 public:
  PanelShare() = default;
  SHAMPOO_BOTH PanelShare(const HalfLines<Float16>& lines, std::int32_t first_line, int thread)
      : first_(lines.data + (first_line + thread / 8) * lines.line + thread % 8 * 8),
        lines_(lines.line_count - first_line - thread / 8) {}

  /// Begins to copy places from first_place on, a multiple of 64, of what lies `offset` elements
  /// behind the lines; 0 for those that do not exist.
  SHAMPOO_BOTH void begin_copy(const HalfLines<Float16>& lines, std::int64_t offset,
                               std::int32_t first_place, int thread, Panel& to) const {
    const std::int32_t place = thread % 8 * 8, places = lines.place_count - first_place - place;
    Float16* const first = to.v + Panel::offset(thread / 8, place);
    const Float16* from = first_ + offset + first_place;
    const std::int64_t next = step * lines.line;
    if (lines.is_aligned(true) && lines.place_count % 8 == 0) {
      for (int line = 0; line < Panel::lines; line += step, from += next)
        copy16(first + line * Panel::places, from, line < lines_ && places > 0);
      return;
    }
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int line = 0; line < Panel::lines; line += step, from += next)
      for (int k = 0; k < 8; ++k)
        first[line * Panel::places + k] = line < lines_ && k < places ? from[k] : Float16{0};
  }

 private:
  const Float16* first_ = nullptr;
  std::int32_t lines_ = 0;  ///< from the thread's first one on
};

/// Sums in float32 of products of elements of two panels, line by line, by 8 warps: a tile of 128 x
/// 128.
template <typename Threads>
class PanelUnit {
  using Unit = MatrixUnit<Threads>;

 public:
  using Sums = typename Unit::Sums;

  SHAMPOO_BOTH static void multiply_add(Sums& sums, int warp, const Panel& left,
                                        const Panel& right) {
    const auto from = [](const Panel& panel, int first_line, int first_place) {
      return [&panel, first_line, first_place](int line, int place) {
        return panel.v + Panel::offset(first_line + line, first_place + place);
      };
    };
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int p = 0; p < Panel::places; p += UnitShape::depth)
      Unit::template multiply_add<true>(sums, from(left, first_row(warp), p),
                                        from(right, first_column(warp), p));
  }

  SHAMPOO_BOTH static void scale(Sums& sums, float factor) { Unit::scale(sums, factor); }

  /// As MatrixUnit::for_each_pair().
  template <typename Use>
  SHAMPOO_BOTH static void for_each_pair(Sums& sums, int warp, Use&& use) {
    const int row = first_row(warp), column = first_column(warp);
    Unit::for_each_pair(sums,
                        [&](int i, int j, float& x, float& y) { use(row + i, column + j, x, y); });
  }

 private:
  SHAMPOO_BOTH static int first_row(int warp) { return warp / 4 * UnitShape::left; }
  SHAMPOO_BOTH static int first_column(int warp) { return warp % 4 * UnitShape::right; }
};

/// What threads have copied to panels is seen by the units that multiply it after the next sync().
SHAMPOO_BOTH inline void publish_panels() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// Four warps multiply 64 x 128 sums of 16 products an instruction, from panels [PTX ISA,
/// wgmma.mma_async]. Thread t of warp w of all has sums (16 w + t / 4, t % 4 * 2 + 8 j) and those 8
/// rows below, and their right neighbours.
template <int Count>
class PanelUnit<DeviceThreads<Count>> {
  static_assert(Count == 256);

 public:
  struct Sums {
    float v[64] = {};
  };

  __device__ static void multiply_add(Sums& sums, int warp, const Panel& left, const Panel& right) {
    const std::uint64_t a = descriptor(left.v + warp / 4 * 64 * Panel::places);
    const std::uint64_t b = descriptor(right.v);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int slice = 0; slice < Panel::places / 16; ++slice)
      multiply_add(sums.v, a + 2 * slice, b + 2 * slice);  // 32 bytes from one to the next
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }

  __device__ static void scale(Sums& sums, float factor) {
#pragma unroll
    for (float& x : sums.v) x *= factor;
  }

  template <typename Use>
  __device__ static void for_each_pair(Sums& sums, int warp, Use&& use) {
    const int lane = read_lane(), row = 16 * warp + lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 16; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const two = sums.v + 4 * j + 2 * half;
        use(row + 8 * half, 8 * j + column, two[0], two[1]);
      }
  }

 private:
  /// Of lines in that mode, 1024 bytes from eight lines to the next eight.
  __device__ static std::uint64_t descriptor(const void* lines) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(lines));
    return std::uint64_t{1} << 62 | std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 16 |
           (address & 0x3FFFF) / 16;
  }

  __device__ static void multiply_add(float (&s)[64], std::uint64_t a, std::uint64_t b) {
    asm volatile(
        "{.reg .pred adds; setp.ne.b32 adds, 1, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds, 1, 1, 0, 0;}"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]),
          "+f"(s[7]), "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]),
          "+f"(s[14]), "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]),
          "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]),
          "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]), "+f"(s[33]), "+f"(s[34]),
          "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]), "+f"(s[41]),
          "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]),
          "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]),
          "+f"(s[56]), "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]),
          "+f"(s[63])
        : "l"(a), "l"(b));
  }
};
#endif

}  // namespace shampoo::kernels::cuda
