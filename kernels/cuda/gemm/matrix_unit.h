// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch/thread_block.h"
#include "kernels/rules/stored.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#endif

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
/// On a device: tiles of 16 x 16 x 16 on its matrix units.
template <int Count>
struct MatrixUnit<DeviceThreads<Count>> {
  static constexpr int tiles_left = UnitShape::left / 16, tiles_right = UnitShape::right / 16;

  using Tile = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;
  struct Sums {
    Tile v[tiles_left][tiles_right];
  };

  template <bool Along, typename Half>
  __device__ static void multiply_add(Sums& sums, const Half* left, const Half* right, int pitch) {
    namespace wmma = nvcuda::wmma;
    using Number = std::conditional_t<std::is_same_v<Half, Bfloat16>, __nv_bfloat16, __half>;
    // The right operand is read as its transpose.
    using Layout = std::conditional_t<Along, wmma::row_major, wmma::col_major>;
    using Transposed = std::conditional_t<Along, wmma::col_major, wmma::row_major>;
    const int lines = 16 * (Along ? pitch : 1);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, Number, Layout> a[tiles_left];
    for (int i = 0; i < tiles_left; ++i)
      wmma::load_matrix_sync(a[i], reinterpret_cast<const Number*>(left) + i * lines,
                             static_cast<unsigned>(pitch));
    for (int j = 0; j < tiles_right; ++j) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, Number, Transposed> b;
      wmma::load_matrix_sync(b, reinterpret_cast<const Number*>(right) + j * lines,
                             static_cast<unsigned>(pitch));
      for (int i = 0; i < tiles_left; ++i) wmma::mma_sync(sums.v[i][j], a[i], b, sums.v[i][j]);
    }
  }

  __device__ static void put(const Sums& sums, float* to, int pitch) {
    for (int i = 0; i < tiles_left; ++i)
      for (int j = 0; j < tiles_right; ++j)
        nvcuda::wmma::store_matrix_sync(to + i * 16 * pitch + j * 16, sums.v[i][j],
                                        static_cast<unsigned>(pitch), nvcuda::wmma::mem_row_major);
  }
};
#endif

}  // namespace shampoo::kernels::cuda
