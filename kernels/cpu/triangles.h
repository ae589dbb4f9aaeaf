// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace shampoo::kernels {

/// Lower triangle -> both, tile by tile: elements that mirror each other share few cache lines.
template <typename Real>
void mirror_lower(Real* a, std::int64_t n) {
  constexpr std::int64_t tile = 32;
  for (std::int64_t top = 0; top < n; top += tile)
    for (std::int64_t left = 0; left <= top; left += tile)
      for (std::int64_t i = top; i < std::min(top + tile, n); ++i)
        for (std::int64_t j = left; j < std::min(left + tile, i); ++j) a[j * n + i] = a[i * n + j];
}

}  // namespace shampoo::kernels
