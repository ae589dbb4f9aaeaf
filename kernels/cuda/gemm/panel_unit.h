// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/matrix_unit.h"
#include "kernels/cuda/gemm/panels.h"

namespace shampoo::kernels::cuda {

/// Sums in float32 of products of elements of two panels, line by line, by 8 warps: a tile of 128 x
/// 128.
template <typename Threads>
class PanelUnit {
  using Unit = MatrixUnit<Threads>;

 public:
  using Sums = typename Unit::Sums;

  template <typename Half, bool Along>
  SHAMPOO_BOTH static void multiply_add(Sums& sums, int warp, const Panel<Half, Along>& left,
                                        const Panel<Half, Along>& right) {
    using Operand = Panel<Half, Along>;
    const auto from = [](const Operand& panel, int first_line, int first_place) {
      return [&panel, first_line, first_place](int line, int place) {
        return panel.rows.v + Operand::offset(first_line + line, first_place + place);
      };
    };
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int p = 0; p < Operand::places; p += UnitShape::depth)
      Unit::template multiply_add<Along>(sums, from(left, first_row(warp), p),
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

  template <typename Half, bool Along>
  __device__ static void multiply_add(Sums& sums, int warp, const Panel<Half, Along>& left,
                                      const Panel<Half, Along>& right) {
    // 64 lines: as many rows, or 64 rows of places.
    constexpr int of_warps = 64 * Panel<Half, Along>::Rows::columns;
    const std::uint64_t a = descriptor(left.rows.v + warp / 4 * of_warps);
    const std::uint64_t b = descriptor(right.rows.v);
    // 16 places, in units of 16 bytes: a quarter of a row, or 16 rows.
    constexpr int slice = Along ? 2 : 16 * 8;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int s = 0; s < Panel<Half, Along>::places / 16; ++s)
      multiply_add<Half, Along>(sums.v, a + slice * s, b + slice * s);
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
  /// Of rows in that mode: 1024 bytes from eight to the next eight and, where rows are places, 8192
  /// from those of 64 lines to those of the next 64.
  __device__ static std::uint64_t descriptor(const void* rows) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(rows));
    return std::uint64_t{1} << 62 | std::uint64_t{1024 / 16} << 32 |
           std::uint64_t{8192 / 16} << 16 | (address & 0x3FFFF) / 16;
  }

  template <typename Half, bool Along>
  __device__ static void multiply_add(float (&s)[64], std::uint64_t a, std::uint64_t b) {
    asm volatile(
        "{.reg .pred adds; setp.ne.b32 adds, 1, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.%66.%66 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds, 1, 1, %67, %67;}"
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
        : "l"(a), "l"(b), "C"(ptx_type<Half>), "n"(Along ? 0 : 1));
  }
};
#endif

}  // namespace shampoo::kernels::cuda
