// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/gather_gradient.h"
#include "kernels/cpu/mode_products.h"
#include "kernels/cpu/threads/scratch.h"

namespace shampoo::kernels {

/// Floating-point operations for one block of a stack, with so many for every element and every
/// place along each dimension that has a basis.
inline double rotation_cost(const Stack& stack, double operations) {
  double sides = 0;
  for (std::size_t k = 0; k < stack.bases.size(); ++k)
    if (stack.bases[k] != nullptr) sides += static_cast<double>(stack.extent[k]);
  return static_cast<double>(elements_of(stack.extent)) * (operations * sides + 1);
}

/// Products of a tensor with an eigenbasis Q along one dimension. Where BLAS multiplies, and
/// OpenBLAS would call malloc, for small products without a transposed operand, Q's transpose is
/// multiplied instead.
template <typename Real>
class BasisProduct {
 public:
  /// `scratch`: product_scratch() elements. `ahead`: used after the product.
  BasisProduct(const Real* basis, const Dimension& at, const MemoryAhead& ahead, Real* scratch)
      : basis_(basis), scratch_(scratch), at_(at), ahead_(ahead) {}

  /// to <- from x_k Q. `row`: from row to row of a matrix; 0: elements are back to back.
  void into(const Real* from, std::int64_t row, Real* to) const {
    if (at_.after == 1) return from_right(true, from, row == 0 ? at_.side : row, to);
    from_left(true, from, row == 0 ? at_.after : row, to);
  }

  /// to <- from x_k Q^T
  void out_of(const Real* from, Real* to) const {
    if (at_.after > 1 || at_.before == 1) return from_left(false, from, at_.after, to);
    from_right(false, from, at_.side, to);
  }

 private:
  /// Slices Y <- Q S if Q lies along the depth, else Q^T S, with S side x after.
  void from_left(bool along_depth, const Real* s, std::int64_t stride, Real* y) const {
    const BlockShape shape{at_.side, at_.after, at_.side};
    const std::int64_t slice = at_.side * at_.after;
    const BlockOperand<Real> q = basis_for(shape, along_depth, along_depth);
    for (std::int64_t b = 0; b < at_.before; ++b, s += slice, y += slice)
      multiply(shape, q, {s, stride, false}, b + 1 == at_.before ? ahead_ : MemoryAhead{}, y,
               at_.after, scratch_);
  }

  /// Y <- S Q^T if Q lies along the depth, else S Q, with S before x side.
  void from_right(bool along_depth, const Real* s, std::int64_t stride, Real* y) const {
    const BlockShape shape{at_.before, at_.side, at_.side};
    multiply(shape, {s, stride, true}, basis_for(shape, along_depth, !along_depth), ahead_, y,
             at_.side, scratch_);
  }

  /// `untransposed`: BLAS sees no transposed operand.
  BlockOperand<Real> basis_for(const BlockShape& shape, bool along_depth, bool untransposed) const {
    const bool transposes = untransposed && !has_block_product<Real>(shape) &&
                            shape.rows * shape.columns * shape.depth <= most_unpacked_products;
    return {transposes ? transposed() : basis_, at_.side, along_depth != transposes};
  }

  const Real* transposed() const {
    for (std::int64_t i = 0; i < at_.side; ++i)
      for (std::int64_t j = 0; j < at_.side; ++j)
        scratch_[j * at_.side + i] = basis_[i * at_.side + j];
    return scratch_;
  }

  const Real* basis_;
  Real* scratch_;
  Dimension at_;
  MemoryAhead ahead_;
};

/// One block of a stack and the eigenbases of its dimensions.
template <typename Real>
class BlockRotation {
 public:
  BlockRotation(const Stack& stack, std::int64_t index, Scratch& scratch)
      : stack_(stack),
        index_(index),
        elements_(elements_of(stack.extent)),
        scratch_(scratch.take<Real>(product_scratch(stack))) {}

  /// x <- x x_k Q_k over all dimensions but `except`; `other`: scratch of the same size.
  void into(Real* x, Real* other, std::size_t except = -1) const {
    into({x, 0}, x, other, {}, except);
  }
  /// x <- g x_k Q_k, with g in x or elsewhere. `then`: used after the products.
  void into(const GradientRows<Real>& g, Real* x, Real* other, const MemoryAhead& then,
            std::size_t except = -1) const {
    turn(g, x, other, x, except, then,
         [](const BasisProduct<Real>& q, const Real* from, std::int64_t row, Real* to) {
           q.into(from, row, to);
         });
  }
  /// to <- x x_k Q_k^T. x and `other`, of the same size, are overwritten; `to` is x or neither.
  void out_of(Real* x, Real* other, Real* to, const MemoryAhead& then = {}) const {
    turn({x, 0}, x, other, to, -1, then,
         [](const BasisProduct<Real>& q, const Real* from, std::int64_t, Real* out) {
           q.out_of(from, out);
         });
  }

  /// x <- x x_k diag(s_k) over all dimensions but `except`
  void scale(Real* x, std::size_t except = -1) const {
    for (std::size_t k = 0; k < stack_.scales.size(); ++k) {
      if (stack_.scales[k] == nullptr || k == except) continue;
      const Dimension at = dimension_of(stack_.extent, k);
      const Real* const s = static_cast<const Real*>(stack_.scales[k]) + index_ * at.side;
      Real* e = x;
      for (std::int64_t b = 0; b < at.before; ++b)
        for (std::int64_t i = 0; i < at.side; ++i, e += at.after)
          for (std::int64_t a = 0; a < at.after; ++a) e[a] *= s[i];
    }
  }

 private:
  bool turns(std::size_t k, std::size_t except) const {
    return k < stack_.bases.size() && stack_.bases[k] != nullptr && k != except;
  }

  const Real* basis(std::size_t k) const {
    const std::int64_t side = stack_.extent[k];
    return static_cast<const Real*>(stack_.bases[k]) + index_ * side * side;
  }

  /// What the product after the one along k uses: a basis, and `to` if that is the last product.
  MemoryAhead used_next(std::size_t k, std::size_t except, std::size_t rest, const Real* to) const {
    while (!turns(++k, except)) continue;
    const std::int64_t side = stack_.extent[k];
    return {ahead(basis(k), side * side), rest == 1 ? ahead(to, elements_) : RowsAhead{}};
  }

  /// The products of g, to and fro between two arrays, of which g may be the first; the last one
  /// writes `to` if it can.
  template <typename Product>
  void turn(const GradientRows<Real>& g, Real* one, Real* other, Real* to, std::size_t except,
            const MemoryAhead& then, const Product& product) const {
    const Real* from = g.data;
    std::int64_t row = g.stride;
    std::size_t rest = 0;
    for (std::size_t k = 0; k < stack_.bases.size(); ++k) rest += turns(k, except);
    for (std::size_t k = 0; rest > 0; ++k) {
      if (!turns(k, except)) continue;
      --rest;
      Real* next = from == one ? other : from == other || rest % 2 == 0 ? one : other;
      if (rest == 0 && from != to) next = to;
      product(BasisProduct<Real>(basis(k), dimension_of(stack_.extent, k),
                                 rest > 0 ? used_next(k, except, rest, to) : then, scratch_),
              from, row, next);
      from = next;
      row = 0;
    }
    if (from == to) return;
    const std::int64_t length = row == 0 ? elements_ : stack_.extent.back();
    for (std::int64_t e = 0; e < elements_; e += length, from += row)
      std::copy(from, from + length, to + e);
  }

  const Stack& stack_;
  std::int64_t index_;
  std::int64_t elements_;
  Real* scratch_;
};

}  // namespace shampoo::kernels
