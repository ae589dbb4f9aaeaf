// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Sums with a fixed number of lanes, so that their order does not depend on the vectors that a
/// processor has. Internal linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

using FourDoubles = double __attribute__((vector_size(32)));

// g++ 12 makes one instruction of this, and six of __builtin_convertvector.
inline void load_lanes(const float* x, FourDoubles& lanes) {
  lanes = FourDoubles{x[0], x[1], x[2], x[3]};
}
inline void load_lanes(const double* x, FourDoubles& lanes) {
  __builtin_memcpy(&lanes, x, sizeof(lanes));
}

/// Sum of products in double precision: 32 at a time, of what is left 4, and then one by one. All
/// calls but the last add a multiple of 32 elements.
class ProductSum {
 public:
  template <typename Real>
  void add(const Real* x, const Real* y, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
      FourDoubles a, b;
      for (int lane = 0; lane < 8; ++lane) {
        load_lanes(x + i + 4 * lane, a);
        load_lanes(y + i + 4 * lane, b);
        lanes_[lane] += a * b;
      }
    }
    FourDoubles a, b, rest = {};
    for (; i + 4 <= count; i += 4) {
      load_lanes(x + i, a);
      load_lanes(y + i, b);
      rest += a * b;
    }
    rest_ += (rest[0] + rest[1]) + (rest[2] + rest[3]);
    for (; i < count; ++i) rest_ += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }

  double total() const {
    const FourDoubles sum = ((lanes_[0] + lanes_[1]) + (lanes_[2] + lanes_[3])) +
                            ((lanes_[4] + lanes_[5]) + (lanes_[6] + lanes_[7]));
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest_;
  }

 private:
  FourDoubles lanes_[8] = {};
  double rest_ = 0;
};

}  // namespace
}  // namespace shampoo::kernels
