// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/symmetric_terms.h"

#include <cstdint>

namespace shampoo::kernels::cuda {

namespace {

/// The high or low parts of matrices that are split; null where only plans are made.
Matrices parts_of(const SquareMatrixBatch& squares, bool low, bool transposed = false) {
  const std::int64_t n = squares.side;
  auto* const high = static_cast<Float16*>(squares.data);
  return {low && high != nullptr ? high + n * n : high, Type::float16, n, 2 * n * n, transposed};
}

/// Without where it goes.
Product product_of_parts(const SymmetricProductGroup& group, bool low_a, bool low_b) {
  const std::int64_t n = group.x.side;
  // Symmetric: B as its transpose, both operands are read along the sum.
  return {n, n, n, group.count(), parts_of(group.x, low_a), parts_of(group.b, low_b, true)};
}

Product into(Product product, void* c, Type type, std::int64_t stride) {
  product.c = c;
  product.c_type = type;
  product.c_row = product.columns;
  product.c_stride = stride;
  return product;
}

}  // namespace

SymmetricTerms terms_of(const SymmetricProductGroup& group, Form operands) {
  const auto term = [&](bool low_a, bool low_b) {
    const std::int64_t n = group.x.side;
    return into(product_of_parts(group, low_a, low_b), group.product.data, Type::float32, n * n);
  };
  SymmetricTerms terms;
  terms.products[0] = term(false, false);
  if (operands == Form::half) return terms;
  const auto add = [&](Product product, double alpha) {
    product.alpha = alpha;
    product.beta = 1;
    terms.products[terms.count++] = product;
  };
  constexpr double unit = 1.0 / static_cast<double>(FormedMatrix::low_scale);
  if (group.x.data == group.b.data) {
    // hi lo + lo hi is twice the mean of hi lo and its transpose.
    add(term(false, true), 2 * unit);
  } else {
    add(term(false, true), unit);
    add(term(true, false), unit);
  }
  return terms;
}

bool is_written_by_library(const SquareMatrixBatch& squares, Form operands, const Weights& weights,
                           Form form) {
  const int addends = (weights.first != 0) + (weights.addend != 0);
  return has_forms(squares) && operands == Form::half && form != Form::split &&
         addends <= (form == Form::half ? 1 : 0);
}

Product product_of_halves(const SymmetricProductGroup& group, const Weights& weights, Form form) {
  const std::int64_t elements = group.x.side * group.x.side;
  const Product halves = product_of_parts(group, false, false);
  Product product = form == Form::half ? into(halves, group.c.data, Type::float16, 2 * elements)
                                       : into(halves, group.c.data, Type::float32, elements);
  product.alpha = weights.product;
  product.beta = weights.first + weights.addend;  // one of them is 0
  if (product.beta != 0) product.addend = weights.first != 0 ? group.x.data : group.d.data;
  return product;
}

}  // namespace shampoo::kernels::cuda
