// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch/thread_block.h"
#include "kernels/rules/stored.h"

namespace shampoo::kernels::cuda {

/// Products of elements of 16 bits with sums in float32, by one warp: 64 lines of the left operand
/// by 32 of the right one, 16 places at a time. Products of such elements are exact in float32. An
/// operand is a function of (line, place) that gives an element's address; eight consecutive places
/// from a multiple of eight on, or, unless Along, as many lines, lie side by side at a multiple of
/// 16 bytes.
struct UnitShape {
  static constexpr int left = 64, right = 32, depth = 16;
};

/// On the host: the definition.
template <typename Threads>
struct MatrixUnit {
  struct Sums {
    float v[UnitShape::left][UnitShape::right] = {};
  };

  template <bool Along, typename Operand>
  static void multiply_add(Sums& sums, const Operand& left, const Operand& right) {
    float a[UnitShape::left], b[UnitShape::right];
    for (int p = 0; p < UnitShape::depth; ++p) {
      for (int i = 0; i < UnitShape::left; ++i) a[i] = to_float(*left(i, p));
      for (int j = 0; j < UnitShape::right; ++j) b[j] = to_float(*right(j, p));
      for (int i = 0; i < UnitShape::left; ++i)
        for (int j = 0; j < UnitShape::right; ++j) sums.v[i][j] += a[i] * b[j];
    }
  }

  static void scale(Sums& sums, float factor) {
    for (auto& row : sums.v)
      for (float& x : row) x *= factor;
  }

  /// use(row, column, sum, its right neighbour), which may change both, for the sums of each
  /// thread; columns are even.
  template <typename Use>
  static void for_each_pair(Sums& sums, Use&& use) {
    for (int i = 0; i < UnitShape::left; ++i)
      for (int j = 0; j < UnitShape::right; j += 2) use(i, j, sums.v[i][j], sums.v[i][j + 1]);
  }
};

#ifdef __CUDACC__
/// Of the thread in its warp, anew with each call: what follows from it does not take registers
/// from one call to the next.
__device__ inline int read_lane() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/// An element's type in PTX.
template <typename Half>
inline constexpr char ptx_type[] = "f16";
template <>
inline constexpr char ptx_type<Bfloat16>[] = "bf16";

/// On a device: its matrix units, 16 x 8 sums of 16 products an instruction [PTX ISA,
/// mma.m16n8k16]. Thread t of a warp has sums (t / 4, t % 4 * 2) and (t / 4 + 8, t % 4 * 2) and
/// their right neighbours.
template <int Count>
struct MatrixUnit<DeviceThreads<Count>> {
  struct Sums {
    float v[UnitShape::left / 16][UnitShape::right / 8][4] = {};
  };

  template <bool Along, typename Operand>
  __device__ static void multiply_add(Sums& sums, const Operand& left, const Operand& right) {
    using Half = std::remove_cvref_t<decltype(*left(0, 0))>;
    // Of four matrices of 8 x 8, thread t points at row t % 8 of number t / 8.
    const int lane = lane_of_thread(), row = lane % 8, upper = lane / 8 % 2 * 8,
              later = lane / 16 * 8;
    const auto at = [&](const Operand& operand, int line, int place) {
      return Along ? operand(line + row, place) : operand(line, place + row);
    };
    Quad a[UnitShape::left / 16];
    for (int i = 0; i < UnitShape::left / 16; ++i)
      a[i] = load<Along>(at(left, 16 * i + upper, later));
    for (int j = 0; j < UnitShape::right / 16; ++j) {
      const Quad b = load<Along>(at(right, 16 * j + later, upper));
      for (int i = 0; i < UnitShape::left / 16; ++i) {
        multiply_add<Half>(sums.v[i][2 * j], a[i], b.v[0], b.v[1]);
        multiply_add<Half>(sums.v[i][2 * j + 1], a[i], b.v[2], b.v[3]);
      }
    }
  }

  __device__ static void scale(Sums& sums, float factor) {
    for (auto& row : sums.v)
      for (auto& four : row)
        for (float& x : four) x *= factor;
  }

  template <typename Use>
  __device__ static void for_each_pair(Sums& sums, Use&& use) {
    const int lane = read_lane(), row = lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < UnitShape::left / 16; ++i)
#pragma unroll
      for (int j = 0; j < UnitShape::right / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float* const two = sums.v[i][j] + 2 * half;
          use(16 * i + row + 8 * half, 8 * j + column, two[0], two[1]);
        }
  }

 private:
  struct Quad {
    unsigned v[4];
  };

  __device__ static int lane_of_thread() { return static_cast<int>(threadIdx.x) % 32; }

  template <bool Along>
  __device__ static Quad load(const void* from) {
    Quad x;
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(from));
    if constexpr (Along)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x.v[0]), "=r"(x.v[1]), "=r"(x.v[2]), "=r"(x.v[3])
                   : "r"(address)
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x.v[0]), "=r"(x.v[1]), "=r"(x.v[2]), "=r"(x.v[3])
                   : "r"(address)
                   : "memory");
    return x;
  }

  template <typename Half>
  __device__ static void multiply_add(float (&sums)[4], const Quad& a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.%10.%10.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), "r"(b1),
          "C"(ptx_type<Half>));
  }
};
#endif

}  // namespace shampoo::kernels::cuda
