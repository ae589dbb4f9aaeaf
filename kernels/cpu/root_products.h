// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/mode_products.h"
#include "kernels/cpu/simd/vector_kernels.h"
#include "kernels/cpu/threads/scratch.h"

namespace shampoo::kernels {

/// to <- from x_k R with the root of a pair array, in place
template <typename Real>
void contract_symmetric(const Dimension& at, const Real* pair, const Real* from, Real* to) {
  const int side = static_cast<int>(at.side), stride = side + 1;
  const auto before = static_cast<int>(at.before), after = static_cast<int>(at.after);
  // BLAS sees the transposes: Y^T = R S^T, or Y^T = S^T R.
  if (at.after == 1)
    return blas::symm('L', 'L', side, before, pair + 1, stride, from, side, to, side);
  const std::int64_t slice = at.side * at.after;
  for (std::int64_t s = 0; s < at.before; ++s)
    blas::symm('R', 'L', after, side, pair + 1, stride, from + s * slice, after, to + s * slice,
               after);
}

/// to <- from x_k R with a dense root R, which is symmetric: it lies as block products read it in
/// place, and for BLAS such that one operand is transposed, where products without packing allocate
/// nothing. `ahead`: used after the product.
template <typename Real>
void contract_dense(const Dimension& at, const Real* root, const Real* from, Real* to,
                    const MemoryAhead& ahead, Real* scratch) {
  if (at.after == 1) {
    const BlockShape shape{at.before, at.side, at.side};
    const bool transposed = !has_block_product<Real>(shape);
    return multiply(shape, {from, at.side, true}, {root, at.side, transposed}, ahead, to, at.side,
                    scratch);
  }
  const BlockShape shape{at.side, at.after, at.side};
  const BlockOperand<Real> rows{root, at.side, has_block_product<Real>(shape)};
  const std::int64_t slice = at.side * at.after;
  for (std::int64_t s = 0; s < at.before; ++s)
    multiply(shape, rows, {from + s * slice, at.after}, s + 1 == at.before ? ahead : MemoryAhead{},
             to + s * slice, at.after, scratch);
}

/// The array of one block and dimension.
template <typename Real>
const Real* array_of(const Stack& stack, std::int64_t index, std::size_t k) {
  return static_cast<const Real*>(stack.factors[k]) +
         index * array_elements(stack.layout, stack.extent[k], sizeof(Real));
}

/// What the product with the first root from dimension k on reads.
template <typename Real>
RowsAhead root_ahead(const Stack& stack, std::int64_t index, std::size_t k) {
  while (k < stack.extent.size() && stack.factors[k] == nullptr) ++k;
  if (k == stack.extent.size()) return {};
  const std::int64_t side = stack.extent[k];
  const std::int64_t begin =
      stack.layout == FactorLayout::with_float16_root ? scales_begin(side) : 0;
  return ahead(array_of<Real>(stack, index, k) + begin,
               array_elements(stack.layout, side, sizeof(Real)) - begin);
}

/// One block of a stack and the roots of its dimensions.
template <typename Real>
class RootProducts {
 public:
  RootProducts(const VectorKernels<Real>& vector, const Stack& stack, std::int64_t index,
               Scratch& scratch)
      : vector_(vector),
        stack_(stack),
        index_(index),
        elements_(elements_of(stack.extent)),
        other_(scratch.take<Real>(elements_)),
        dense_(scratch.take<Real>(dense_root_elements(stack))),
        products_(scratch.take<Real>(product_scratch(stack))) {}

  /// D <- D contracted with the root of every dimension but `except`. `meanwhile` is fetched in the
  /// first product, `then` in the last one.
  void apply(Real* direction, const MemoryAhead& meanwhile, const MemoryAhead& then,
             std::size_t except = -1) const {
    Real *from = direction, *to = other_;
    bool is_first = true;
    for (std::size_t k = 0; k < stack_.extent.size(); ++k) {
      if (stack_.factors[k] == nullptr || k == except) continue;
      const RowsAhead next = root_ahead<Real>(stack_, index_, k + 1);
      MemoryAhead used{next};
      if (std::exchange(is_first, false)) used.add(meanwhile);
      if (next.rows == 0) used.add(then);
      contract_with(k, from, to, used);
      std::swap(from, to);
    }
    if (from != direction) std::copy(from, from + elements_, direction);
  }

 private:
  /// to <- from x_k R_k
  void contract_with(std::size_t k, const Real* from, Real* to, const MemoryAhead& then) const {
    const Dimension at = dimension_of(stack_.extent, k);
    const Real* const array = array_of<Real>(stack_, index_, k);
    if (stack_.layout == FactorLayout::with_float16_root)
      vector_.widen_root(array, at.side, dense_);
    else if (at.before * at.after == 1)
      return vector_.apply_root(array, at.side, from, to);
    else if (at.side > longest_dense_root)
      return contract_symmetric(at, array, from, to);
    else
      vector_.mirror_root(array, at.side, dense_);
    contract_dense(at, dense_, from, to, then, products_);
  }

  const VectorKernels<Real>& vector_;
  const Stack& stack_;
  std::int64_t index_;
  std::int64_t elements_;
  Real* other_;
  Real* dense_;
  Real* products_;
};

}  // namespace shampoo::kernels
