// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/thread_block.h"
#include "kernels/cuda/launch/vector_access.h"
#include "kernels/rules/stored.h"
#include "kernels/solvers/solver_arguments.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace shampoo::kernels::cuda {

/// Two neighbours of 16 bits.
struct alignas(4) HalfPair {
  Float16 v[2];
};

/// The nearest numbers, ties to even. What is not a number stays so, with any bits.
SHAMPOO_BOTH inline HalfPair nearest_halves(float x, float y) {
#ifdef __CUDA_ARCH__
  const __half2_raw pair = __floats2half2_rn(x, y);
  return {{{pair.x}, {pair.y}}};
#else
  return {{to_float16(x), to_float16(y)}};
#endif
}

SHAMPOO_BOTH inline float widened(Float16 x) {
#ifdef __CUDA_ARCH__
  return __half2float(__half(__half_raw{x.bits}));
#else
  return to_float(x);
#endif
}

/// Neighbours in a row; those behind its end are 0.
template <typename Real>
struct EightOf {
  Real v[8] = {};
};
using EightNumbers = EightOf<float>;

/// A dense matrix of float64, as a FormedMatrix.
class Float64Matrix {
 public:
  SHAMPOO_BOTH Float64Matrix(double* data, std::int64_t side) : data_(data), side_(side) {}

  SHAMPOO_BOTH EightOf<double> load(std::int64_t row, std::int64_t column) const {
    EightOf<double> x;
    for (int k = 0; k < 8; ++k)
      if (row < side_ && column + k < side_) x.v[k] = data_[row * side_ + column + k];
    return x;
  }
  SHAMPOO_BOTH void store(std::int64_t row, std::int64_t column, const EightOf<double>& x) const {
    for (int k = 0; k < 8; ++k)
      if (row < side_ && column + k < side_) data_[row * side_ + column + k] = x.v[k];
  }

 private:
  double* data_;
  std::int64_t side_;
};

/// A matrix of float32 in one of its forms, in the memory of its elements. As numbers of 16 bits,
/// x = high + low / 2^11: all of high, then all of low. 16 bytes are moved at once where all rows
/// start at multiples of 16.
class FormedMatrix {
 public:
  static constexpr float low_scale = 2048;

  SHAMPOO_BOTH FormedMatrix(void* data, std::int64_t side, Form form)
      : data_(data),
        side_(side),
        form_(form),
        by_eight_(side % 8 == 0 && reinterpret_cast<std::uintptr_t>(data) % 16 == 0) {}

  /// Elements (row, column) to (row, column + 7), 0 behind the sides; column is a multiple of 8.
  SHAMPOO_BOTH EightNumbers load(std::int64_t row, std::int64_t column) const {
    EightNumbers x;
    if (row >= side_ || column >= side_) return x;
    const std::int64_t first = row * side_ + column;
    if (!by_eight_) {
      for (int k = 0; k < 8; ++k)
        if (column + k < side_) x.v[k] = at(first + k);
      return x;
    }
    if (form_ == Form::dense) {
      for (int half = 0; half < 2; ++half) {
        const auto four = reinterpret_cast<const FourFloats*>(numbers() + first)[half];
        for (int k = 0; k < 4; ++k) x.v[4 * half + k] = four.v[k];
      }
      return x;
    }
    // Both are under way before either is converted.
    const bool splits = form_ == Form::split;
    const auto above = load16<EightHalves>(high() + first);
    const auto below = splits ? load16<EightHalves>(low() + first) : EightHalves();
    add(above, 1, x);
    if (splits) add(below, 1 / low_scale, x);
    return x;
  }

  /// All of high, and, so many elements behind them, all of low. half or split
  SHAMPOO_BOTH Float16* parts() const { return high(); }
  SHAMPOO_BOTH std::int64_t to_low() const { return side_ * side_; }
  SHAMPOO_BOTH std::int64_t side() const { return side_; }

  /// Begins to copy the high or low parts of elements (row, column) to (row, column + 7) to memory
  /// that threads share, 16 bytes at a multiple of 16; 0 behind the sides. column is a multiple
  /// of 8.
  SHAMPOO_BOTH void begin_copy(bool low, std::int64_t row, std::int64_t column, Float16* to) const {
    const std::int64_t first = row * side_ + column + (low ? to_low() : 0);
    const bool exists = row < side_ && column < side_;
    if (by_eight_) {
      copy16(to, high() + first, exists);
      return;
    }
    for (int k = 0; k < 8; ++k)
      to[k] = exists && column + k < side_ ? high()[first + k] : Float16{0};
  }
  /// Those parts, unless they are behind the sides, <- eight numbers at a multiple of 16 bytes.
  SHAMPOO_BOTH void store_eight(bool low, std::int64_t row, std::int64_t column,
                                const Float16* from) const {
    if (row >= side_ || column >= side_) return;
    const int count = static_cast<int>(side_ - column < 8 ? side_ - column : 8);
    put(load16<EightHalves>(from), high() + row * side_ + column + (low ? to_low() : 0), count);
  }
  SHAMPOO_BOTH float* numbers() const { return static_cast<float*>(data_); }  ///< dense

  /// Elements (row, column) to (row, column + 7) <- x, but for those behind the sides; column is a
  /// multiple of 8.
  SHAMPOO_BOTH void store(std::int64_t row, std::int64_t column, const EightNumbers& x) const {
    if (row >= side_ || column >= side_) return;
    const std::int64_t first = row * side_ + column;
    const int count = static_cast<int>(side_ - column < 8 ? side_ - column : 8);
    if (form_ == Form::dense) {
      if (by_eight_) {
        for (int half = 0; half < 2; ++half) {
          const float* const v = x.v + 4 * half;
          reinterpret_cast<FourFloats*>(numbers() + first)[half] = {{v[0], v[1], v[2], v[3]}};
        }
      } else {
        for (int k = 0; k < 8; ++k)
          if (k < count) numbers()[first + k] = x.v[k];
      }
      return;
    }
    EightHalves above, below;
    for (int k = 0; k < 8; k += 2) {
      above.pairs[k / 2] = nearest_halves(x.v[k], x.v[k + 1]);
      if (form_ == Form::split)
        below.pairs[k / 2] = nearest_halves(rest(x, above, k), rest(x, above, k + 1));
    }
    put(above, high() + first, count);
    if (form_ == Form::split) put(below, low() + first, count);
  }

 private:
  /// Element `number`, row by row.
  SHAMPOO_BOTH float at(std::int64_t number) const {
    if (form_ == Form::dense) return numbers()[number];
    const float x = widened(high()[number]);
    return form_ == Form::half ? x : x + widened(low()[number]) / low_scale;
  }

  struct alignas(16) FourFloats {
    float v[4];
  };
  struct alignas(16) EightHalves {
    HalfPair pairs[4];
    SHAMPOO_BOTH Float16 operator[](int k) const { return pairs[k / 2].v[k % 2]; }
  };

  SHAMPOO_BOTH Float16* high() const { return static_cast<Float16*>(data_); }
  SHAMPOO_BOTH Float16* low() const { return high() + side_ * side_; }

  SHAMPOO_BOTH static void add(const EightHalves& halves, float scale, EightNumbers& x) {
    for (int k = 0; k < 8; ++k) x.v[k] += widened(halves[k]) * scale;
  }
  /// 2^11 (x - high), without rounding.
  SHAMPOO_BOTH static float rest(const EightNumbers& x, const EightHalves& high, int k) {
    return (x.v[k] - widened(high[k])) * low_scale;
  }
  SHAMPOO_BOTH void put(const EightHalves& from, Float16* to, int count) const {
    if (by_eight_)
      store16(to, from);
    else
      for (int k = 0; k < 8; ++k)
        if (k < count) to[k] = from[k];
  }

  void* data_;
  std::int64_t side_;
  Form form_;
  bool by_eight_;
};

}  // namespace shampoo::kernels::cuda
