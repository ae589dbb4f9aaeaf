// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/square_product.h"

#include <string_view>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/small_products.h"
#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels {

namespace {

/// Side up to which OpenBLAS may choose a kernel without packing: n^3 <= 10^6.
constexpr int longest_small_side = 100;

/// Null where the processor has no level that they are compiled for.
const SmallProducts& small_products() {
  static const SmallProducts best = [] {
    [[maybe_unused]] const std::string_view level = best_level().name;
#if defined(__x86_64__)
    if (level == x86_v4_level().name) return x86_v4_products();
    if (level == x86_v3_level().name) return x86_v3_products();
#endif
    return SmallProducts{};
  }();
  return best;
}

template <typename Real>
void dispatch(void (*small)(const Real*, const Real*, Real*, std::int64_t), const Real* a,
              const Real* b, Real* c, int n, Real* scratch) {
  if (small != nullptr && n <= longest_small_side) return small(a, b, c, n);
  multiply({n, n, n}, {a, n, true}, {b, n, false}, {}, c, n, scratch);
}

}  // namespace

void multiply_square(const float* a, const float* b, float* c, int n, float* scratch) {
  dispatch(small_products().in_float, a, b, c, n, scratch);
}
void multiply_square(const double* a, const double* b, double* c, int n, double* scratch) {
  dispatch(small_products().in_double, a, b, c, n, scratch);
}

}  // namespace shampoo::kernels
