// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Sums with a fixed number of lanes, so that their order does not depend on the vectors that a
/// processor has. Internal linkage: see vector_types.h.
namespace shampoo::kernels {
namespace {

using EightDoubles = double __attribute__((vector_size(64)));
using EightFloats = float __attribute__((vector_size(32)));

inline void load_lanes(const float* x, EightDoubles& lanes) {
  EightFloats narrow;
  __builtin_memcpy(&narrow, x, sizeof(narrow));
  lanes = __builtin_convertvector(narrow, EightDoubles);
}
inline void load_lanes(const double* x, EightDoubles& lanes) {
  __builtin_memcpy(&lanes, x, sizeof(lanes));
}

inline double sum_of(const EightDoubles& x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

/// Sum of products in double precision. All calls but the last add a multiple of 32 elements.
class ProductSum {
 public:
  template <typename Real>
  void add(const Real* x, const Real* y, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
      EightDoubles a, b;
      for (int lane = 0; lane < 4; ++lane) {
        load_lanes(x + i + 8 * lane, a);
        load_lanes(y + i + 8 * lane, b);
        lanes_[lane] += a * b;
      }
    }
    for (; i < count; ++i) rest_ += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }

  double total() const {
    return ((sum_of(lanes_[0]) + sum_of(lanes_[1])) + (sum_of(lanes_[2]) + sum_of(lanes_[3]))) +
           rest_;
  }

 private:
  EightDoubles lanes_[4] = {};
  double rest_ = 0;
};

}  // namespace
}  // namespace shampoo::kernels
