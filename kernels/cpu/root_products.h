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

/// The root of a pair array, both triangles.
template <typename Real>
void mirror(const Real* pair, std::int64_t side, Real* dense) {
  for (std::int64_t i = 0; i < side; ++i) {
    const Real* const row = pair + i * (side + 1) + 1;
    for (std::int64_t j = i; j < side; ++j) dense[i * side + j] = dense[j * side + i] = row[j];
  }
}

/// The root X of one dimension as BLAS reads it, and its products. With one operand transposed,
/// which makes no difference to X, OpenBLAS's products without packing allocate nothing.
template <typename Real>
class Root {
 public:
  Root(const Real* pair, std::int64_t side, Real* dense)
      : side_(static_cast<int>(side)), is_dense_(side <= longest_dense_root) {
    if (is_dense_) mirror(pair, side, dense);
    data_ = is_dense_ ? dense : pair + 1;
  }

  /// Y <- X S, with S side x n; BLAS sees Y^T = S^T X.
  void from_left(int n, const Real* s, Real* y) const {
    if (is_dense_)
      blas::gemm('N', 'T', n, side_, side_, Real(1), s, n, data_, side_, Real(0), y, n);
    else
      blas::symm('R', 'L', n, side_, data_, side_ + 1, s, n, y, n);
  }

  /// Y <- S X, with S m x side; BLAS sees Y^T = X S^T.
  void from_right(int m, const Real* s, Real* y) const {
    if (is_dense_)
      blas::gemm('T', 'N', side_, m, side_, Real(1), data_, side_, s, side_, Real(0), y, side_);
    else
      blas::symm('L', 'L', side_, m, data_, side_ + 1, s, side_, y, side_);
  }

 private:
  int side_;
  bool is_dense_;
  const Real* data_ = nullptr;
};

template <typename Real>
void contract(const Dimension& at, const Root<Real>& root, const Real* from, Real* to) {
  if (at.after == 1) return root.from_right(static_cast<int>(at.before), from, to);
  const std::int64_t slice = at.side * at.after;
  for (std::int64_t s = 0; s < at.before; ++s)
    root.from_left(static_cast<int>(at.after), from + s * slice, to + s * slice);
}

/// to <- from x_k R with a dense root R. An operand is transposed, as above.
template <typename Real>
void contract_dense(const Dimension& at, const Real* root, const Real* from, Real* to,
                    Real* scratch) {
  const BlockOperand<Real> transposed{root, at.side, true};
  if (at.after == 1)
    return multiply({at.before, at.side, at.side}, {from, at.side, true}, transposed, {}, to,
                    at.side, scratch);
  const std::int64_t slice = at.side * at.after;
  for (std::int64_t s = 0; s < at.before; ++s)
    multiply({at.side, at.after, at.side}, {root, at.side, false}, {from + s * slice, at.after}, {},
             to + s * slice, at.after, scratch);
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
        products_(is_packed(stack.layout) ? scratch.take<Real>(basis_product_scratch(stack))
                                          : nullptr) {}

  /// D <- D contracted with the root of every dimension but `except`
  void apply(Real* direction, std::size_t except = -1) const {
    Real *from = direction, *to = other_;
    for (std::size_t k = 0; k < stack_.extent.size(); ++k) {
      if (stack_.factors[k] == nullptr || k == except) continue;
      contract_with(k, from, to);
      std::swap(from, to);
    }
    if (from != direction) std::copy(from, from + elements_, direction);
  }

 private:
  /// to <- from x_k R_k
  void contract_with(std::size_t k, const Real* from, Real* to) const {
    const Dimension at = dimension_of(stack_.extent, k);
    const Real* const array = static_cast<const Real*>(stack_.factors[k]) +
                              index_ * array_elements(stack_.layout, at.side, sizeof(Real));
    if (stack_.layout == FactorLayout::with_float16_root) {
      vector_.widen_root(array, at.side, dense_);
      contract_dense(at, dense_, from, to, products_);
    } else if (at.before * at.after == 1) {
      vector_.apply_root(array, at.side, from, to);
    } else {
      contract(at, Root<Real>(array, at.side, dense_), from, to);
    }
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
