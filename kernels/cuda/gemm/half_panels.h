// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/matrix_parts.h"
#include "kernels/cuda/launch/batch.h"
#include "kernels/rules/stored.h"

namespace shampoo::kernels::cuda {

/// Matrices of float32 as sums of float16, x = hi + lo / 2^11 with a relative error of 2^-22, for
/// products that run on units for 16 bits. Rows of the panel of one matrix are hi, or hi, lo and hi
/// again: with A's first two thirds and B's last two, one product of twice the depth is
/// hi_A lo_B + lo_A hi_B. The product of both lows, 2^-22 of the whole, is left out.
struct HalfPanels {
  SquareMatrixBatch x;
  Float16* panels = nullptr;  ///< back to back
  bool has_low = false;

  static constexpr float low_scale = 2048;

  /// Columns of a part: those of a matrix, and zeros up to 16 bytes.
  SHAMPOO_BOTH static constexpr std::int64_t width(std::int64_t side) {
    return ceiling(side, 8) * 8;
  }
  SHAMPOO_BOTH static constexpr std::int64_t row(std::int64_t side, bool has_low) {
    return width(side) * (has_low ? 3 : 1);
  }
  SHAMPOO_BOTH static constexpr std::int64_t size(std::int64_t side, bool has_low) {
    return side * row(side, has_low);
  }

  SHAMPOO_BOTH std::int64_t count() const { return x.count; }
  HalfPanels range(std::int64_t begin, std::int64_t n) const {
    return {range_of(x, begin, n), panels + begin * size(x.side, has_low), has_low};
  }
};

/// Fills panels. One block of threads per part of rows.
struct SplitFloat16 {
  static constexpr int threads = 256;
  struct Shared {};

  Batch<HalfPanels> batch;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

template <typename Threads>
SHAMPOO_BOTH void SplitFloat16::operator()(Threads& block, Shared&) const {
  const auto item = batch.item(block.index());
  const std::int64_t n = item.group.x.side, width = HalfPanels::width(n);
  const bool has_low = item.group.has_low;
  const std::int64_t panel_row = HalfPanels::row(n, has_low);
  const RowRange rows = row_part(n, item.part);
  const float* const x =
      static_cast<const float*>(item.group.x.data) + item.member * n * n + rows.first * n;
  Float16* const panel =
      item.group.panels + item.member * HalfPanels::size(n, has_low) + rows.first * panel_row;
  block.each([&](int thread) {
    for (std::int64_t e = thread; e < rows.count * width; e += threads) {
      const std::int64_t i = e / width, j = e % width;
      const float whole = j < n ? x[i * n + j] : 0.0f;
      const Float16 high = stored<Float16>(whole);
      Float16* const to = panel + i * panel_row + j;
      to[0] = high;
      if (!has_low) continue;
      to[width] = stored<Float16>((whole - to_float(high)) * HalfPanels::low_scale);
      to[2 * width] = high;
    }
  });
}

}  // namespace shampoo::kernels::cuda
