// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::kernels {

/// Products C <- A B of square matrices that fit into the first-level cache, without packing:
/// row-major n x n; C is no operand. Compiled once for each level of the instruction set that fuses
/// products and sums.
struct SmallProducts {
  void (*in_float)(const float* a, const float* b, float* c, std::int64_t n) = nullptr;
  void (*in_double)(const double* a, const double* b, double* c, std::int64_t n) = nullptr;
};

SmallProducts x86_v3_products();
SmallProducts x86_v4_products();

}  // namespace shampoo::kernels
