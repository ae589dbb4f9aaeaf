// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/block_products.h"

#include <string_view>

#include "kernels/cpu/blas/blas.h"
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

/// C <- keep C + add A B. BLAS sees C^T = B^T A^T.
template <typename Real>
void multiply_by_blas(const BlockShape& shape, const BlockOperand<Real>& a,
                      const BlockOperand<Real>& b, Real keep, Real add, Real* c,
                      std::int64_t stride) {
  blas::gemm(b.along_depth ? 'T' : 'N', a.along_depth ? 'N' : 'T', static_cast<int>(shape.columns),
             static_cast<int>(shape.rows), static_cast<int>(shape.depth), add, b.data,
             static_cast<int>(b.stride), a.data, static_cast<int>(a.stride), keep, c,
             static_cast<int>(stride));
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

template <typename Real>
void multiply(const BlockShape& shape, const BlockOperand<Real>& a, const BlockOperand<Real>& b,
              const MemoryAhead& ahead, Real* c, std::int64_t stride, Real* scratch) {
  if (has_block_product<Real>(shape))
    return block_products<Real>().multiply(shape, a, b, ahead, c, stride, scratch);
  multiply_by_blas(shape, a, b, Real(0), Real(1), c, stride);
}

template <typename Real>
void subtract(const BlockShape& shape, const BlockOperand<Real>& a, const BlockOperand<Real>& b,
              Real* c, std::int64_t stride, Real* scratch) {
  if (has_block_product<Real>(shape))
    return block_products<Real>().subtract(shape, a, b, c, stride, scratch);
  multiply_by_blas(shape, a, b, Real(1), Real(-1), c, stride);
}

template void multiply(const BlockShape&, const BlockOperand<float>&, const BlockOperand<float>&,
                       const MemoryAhead&, float*, std::int64_t, float*);
template void multiply(const BlockShape&, const BlockOperand<double>&, const BlockOperand<double>&,
                       const MemoryAhead&, double*, std::int64_t, double*);
template void subtract(const BlockShape&, const BlockOperand<float>&, const BlockOperand<float>&,
                       float*, std::int64_t, float*);
template void subtract(const BlockShape&, const BlockOperand<double>&, const BlockOperand<double>&,
                       double*, std::int64_t, double*);

}  // namespace shampoo::kernels
