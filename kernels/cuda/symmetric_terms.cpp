// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/symmetric_terms.h"

#include <cstdint>

namespace shampoo::kernels::cuda {

namespace {

constexpr double low_unit = 1.0 / static_cast<double>(FormedMatrix::low_scale);

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

/// In float32.
Product sums_of_parts(const SymmetricProductGroup& group, const SquareMatrixBatch& to, bool low_a,
                      bool low_b) {
  return into(product_of_parts(group, low_a, low_b), to.data, Type::float32, to.side * to.side);
}

Product scaled(Product product, double alpha, double beta) {
  product.alpha = alpha;
  product.beta = beta;
  return product;
}

/// weight A B, of operands that are split.
void add_split(const SymmetricProductGroup& group, const SquareMatrixBatch& to, double weight,
               SymmetricTerms& terms) {
  const double low = weight * low_unit;
  terms.add(scaled(sums_of_parts(group, to, false, false), weight, 0));
  if (group.x.data == group.b.data) {
    // hi lo + lo hi is twice the mean of hi lo and its transpose.
    terms.add(scaled(sums_of_parts(group, to, false, true), 2 * low, 1));
  } else {
    terms.add(scaled(sums_of_parts(group, to, false, true), low, 1));
    terms.add(scaled(sums_of_parts(group, to, true, false), low, 1));
  }
}

/// True if a quarter of a product is worth two more launches, and all quarters are aligned.
bool is_quartered(std::int64_t side) { return side >= 768 && side % 16 == 0; }

/// Of a product of parts in float32, the lines and columns from multiples of half its side on.
Product quarter(Product product, std::int64_t row, std::int64_t column) {
  const std::int64_t n = product.rows, half = n / 2;
  const auto lines_of = [&](Matrices& operand, std::int64_t number) {
    operand.data = static_cast<const Float16*>(operand.data) + number * half * n;
  };
  lines_of(product.a, row);
  lines_of(product.b, column);
  product.c = static_cast<float*>(product.c) + row * half * n + column * half;
  product.rows = product.columns = half;
  return product;
}

/// Halves of halves.
Product product_of_halves(const SymmetricProductGroup& group, const Weights& weights) {
  Product product = into(product_of_parts(group, false, false), group.c.data, Type::float16,
                         2 * group.x.side * group.x.side);
  product.alpha = weights.product;
  product.beta = weights.first + weights.addend;  // one of them is 0
  if (product.beta != 0) product.addend = weights.first != 0 ? group.x.data : group.d.data;
  return product;
}

}  // namespace

SymmetricTerms terms_of(const SymmetricProductGroup& group, Form operands) {
  SymmetricTerms terms;
  const Product high = sums_of_parts(group, group.product, false, false);
  if (operands == Form::half) {
    terms.add(high);
  } else if (group.x.data == group.b.data && is_quartered(group.x.side)) {
    terms.add(scaled(sums_of_parts(group, group.product, false, true), 2 * low_unit, 0));
    // The upper right one is the lower left one's mirror image.
    terms.add(scaled(quarter(high, 0, 0), 1, 1));
    terms.add(scaled(quarter(high, 1, 0), 2, 1));
    terms.add(scaled(quarter(high, 1, 1), 1, 1));
  } else {
    add_split(group, group.product, 1, terms);
  }
  return terms;
}

bool is_written_by_library(const SquareMatrixBatch& squares, Form operands, const Weights& weights,
                           Form form) {
  if (!has_forms(squares)) return false;
  const bool one_addend = weights.first == 0 || weights.addend == 0;
  return form == Form::unsymmetric || (operands == Form::half && form == Form::half && one_addend);
}

SymmetricTerms terms_of_result(const SymmetricProductGroup& group, Form operands,
                               const Weights& weights, Form form) {
  SymmetricTerms terms;
  if (form != Form::unsymmetric)
    terms.add(product_of_halves(group, weights));
  else if (operands == Form::half)
    terms.add(scaled(sums_of_parts(group, group.c, false, false), weights.product, 0));
  else
    add_split(group, group.c, weights.product, terms);
  return terms;
}

}  // namespace shampoo::kernels::cuda
