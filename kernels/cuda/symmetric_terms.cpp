// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/symmetric_terms.h"

#include <cstdint>

namespace shampoo::kernels::cuda {

namespace {

/// The high or low parts of matrices that are split; null where only plans are made.
Matrices parts_of(const SquareMatrixBatch& squares, bool low, bool transposed) {
  const std::int64_t n = squares.side;
  auto* const high = static_cast<Float16*>(squares.data);
  return {low && high != nullptr ? high + n * n : high, Type::float16, n, 2 * n * n, transposed};
}

/// From this side on, half squares are made in two panels of rows that have the lower triangle: 3/4
/// of the operations. Where sides are shorter, a second launch takes longer than it saves.
constexpr std::int64_t least_side_of_panels = 512;

}  // namespace

SymmetricTerms terms_of(const SymmetricProductGroup& group, Form operands) {
  const std::int64_t n = group.x.side;
  const auto term = [&](bool low_a, bool low_b, double alpha, double beta) -> Product {
    return {n, n, n, group.count(), parts_of(group.x, low_a, false),
            // Symmetric: as its transpose, both operands are read along the sum.
            parts_of(group.b, low_b, true), group.product.data, Type::float32, n, n * n, alpha,
            beta};
  };
  SymmetricTerms terms;
  terms.products[0] = term(false, false, 1, 0);
  if (is_half_square(group, operands) && n >= least_side_of_panels) {
    Product& top = terms.products[0];
    Product& bottom = terms.products[terms.count++] = top;
    const std::int64_t middle = ceiling(n, 2 * mirrored_side) * mirrored_side;
    top.rows = top.columns = middle;
    bottom.rows = n - middle;
    bottom.a.data = static_cast<const Float16*>(bottom.a.data) + middle * n;
    bottom.c = static_cast<float*>(bottom.c) + middle * n;
  }
  if (operands == Form::half) return terms;
  constexpr double unit = 1.0 / static_cast<double>(FormedMatrix::low_scale);
  if (group.x.data == group.b.data) {
    // hi lo + lo hi is twice the mean of hi lo and its transpose.
    terms.products[terms.count++] = term(false, true, 2 * unit, 1);
    return terms;
  }
  terms.products[terms.count++] = term(false, true, unit, 1);
  terms.products[terms.count++] = term(true, false, unit, 1);
  return terms;
}

bool is_plain_half(const SymmetricProductGroup& group, Form operands, const Weights& weights,
                   Form form) {
  return has_forms(group.x) && group.x.data != group.b.data && operands == Form::half &&
         form == Form::half && weights == Weights{};
}

Product half_product(const SymmetricProductGroup& group) {
  const std::int64_t n = group.x.side;
  const Matrices c = parts_of(group.c, false, false);
  return {n,
          n,
          n,
          group.count(),
          parts_of(group.x, false, false),
          parts_of(group.b, false, true),
          group.c.data,
          c.type,
          c.row,
          c.stride,
          1,
          0};
}

}  // namespace shampoo::kernels::cuda
