// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch/thread_block.h"
#include "kernels/rules/stored.h"

namespace shampoo::kernels::cuda {

/// Products of elements of 16 bits with sums in float32, by one warp: 64 lines of the left operand
/// by 32 of the right one, 16 places at a time. Products of such elements are exact in float32.
/// Along: an operand's places are consecutive and its lines `pitch` elements apart; otherwise the
/// other way round.
struct UnitShape {
  static constexpr int left = 64, right = 32, depth = 16;
};

/// On the host: the definition.
template <typename Threads>
struct MatrixUnit {
  struct Sums {
    float v[UnitShape::left][UnitShape::right] = {};
  };

  template <bool Along, typename Half>
  static void multiply_add(Sums& sums, const Half* left, const Half* right, int pitch) {
    const auto at = [&](const Half* operand, int line, int place) {
      return to_float(operand[Along ? line * pitch + place : place * pitch + line]);
    };
    for (int i = 0; i < UnitShape::left; ++i)
      for (int j = 0; j < UnitShape::right; ++j)
        for (int p = 0; p < UnitShape::depth; ++p) sums.v[i][j] += at(left, i, p) * at(right, j, p);
  }

  static void put(const Sums& sums, float* to, int pitch) {
    for (int i = 0; i < UnitShape::left; ++i)
      for (int j = 0; j < UnitShape::right; ++j) to[i * pitch + j] = sums.v[i][j];
  }
};

#ifdef __CUDACC__
/// On a device: its matrix units, 16 x 8 sums of 16 products an instruction [PTX ISA,
/// mma.m16n8k16]. Thread t of a warp has sums (t / 4, t % 4 * 2) and (t / 4 + 8, t % 4 * 2) and
/// their right neighbours.
template <int Count>
struct MatrixUnit<DeviceThreads<Count>> {
  struct Sums {
    float v[UnitShape::left / 16][UnitShape::right / 8][4] = {};
  };

  template <bool Along, typename Half>
  __device__ static void multiply_add(Sums& sums, const Half* left, const Half* right, int pitch) {
    // Of four matrices of 8 x 8, thread t points at row t % 8 of number t / 8.
    const int lane = lane_of_thread(), row = lane % 8, upper = lane / 8 % 2 * 8,
              later = lane / 16 * 8;
    const auto at = [&](const Half* operand, int line, int place) {
      return Along ? operand + (line + row) * pitch + place
                   : operand + (place + row) * pitch + line;
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

  __device__ static void put(const Sums& sums, float* to, int pitch) {
    const int row = lane_of_thread() / 4, column = lane_of_thread() % 4 * 2;
    for (int i = 0; i < UnitShape::left / 16; ++i)
      for (int j = 0; j < UnitShape::right / 8; ++j)
        for (int half = 0; half < 2; ++half) {
          const float* const two = sums.v[i][j] + 2 * half;
          *reinterpret_cast<float2*>(to + (16 * i + row + 8 * half) * pitch + 8 * j + column) =
              make_float2(two[0], two[1]);
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
    if constexpr (std::is_same_v<Half, Bfloat16>)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
          "{%8, %9}, {%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), "r"(b1));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
          "{%8, %9}, {%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), "r"(b1));
  }
};
#endif

}  // namespace shampoo::kernels::cuda
