// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/block_products.h"

#include <string_view>

#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels {

namespace {

template <typename Real>
BlockProducts<Real> best_products() {
  [[maybe_unused]] const std::string_view level = best_level().name;
#if defined(__x86_64__)
  if (level == x86_v4_level().name) return x86_v4_block_products(Real());
  if (level == x86_v3_level().name) return x86_v3_block_products(Real());
#endif
  return {};
}

}  // namespace

const BlockProducts<float>& block_products(float) {
  static const BlockProducts<float> best = best_products<float>();
  return best;
}
const BlockProducts<double>& block_products(double) {
  static const BlockProducts<double> best = best_products<double>();
  return best;
}

}  // namespace shampoo::kernels
