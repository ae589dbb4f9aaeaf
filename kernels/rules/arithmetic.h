// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include <cstdint>

#include "kernels/rules/host_device.h"
#include "kernels/views.h"

namespace shampoo::kernels {

SHAMPOO_RULE float root(float x) { return ::sqrtf(x); }
SHAMPOO_RULE double root(double x) { return ::sqrt(x); }

template <typename Real>
SHAMPOO_RULE bool is_finite(Real x) {
  return x - x == 0;
}

/// lerp(a, b, w) = w < 1/2 ? a + w (b - a) : b - (1 - w) (b - a), as base + slope (b - a)
template <typename Real>
struct Lerp {
  SHAMPOO_RULE explicit Lerp(double weight)
      : from_a(static_cast<Real>(weight) < Real(0.5)),
        slope(from_a ? static_cast<Real>(weight) : -(Real(1) - static_cast<Real>(weight))) {}

  SHAMPOO_RULE Real operator()(Real a, Real b) const { return (from_a ? a : b) + slope * (b - a); }

  bool from_a;
  Real slope;
};

/// Sum over the tiles of a block, in order.
SHAMPOO_RULE double sum_of_tiles(const Block& block, const double* partials) {
  double sum = 0;
  for (std::int32_t k = 0; k < block.tile_count; ++k) sum += partials[block.first_tile + k];
  return sum;
}

}  // namespace shampoo::kernels
