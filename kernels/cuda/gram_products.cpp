// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gram_products.h"

#include <algorithm>

#include "kernels/cuda/gemm/gram_terms.h"
#include "kernels/cuda/mode_chain.h"

namespace shampoo::kernels::cuda {

bool has_library_gram(const Stack& stack, std::size_t k, Type arithmetic) {
  if (arithmetic != Type::float32 || stack.factors[k] == nullptr) return false;
  const ModeShape shape = mode_shape(stack.extent, k);
  const bool is_outer = shape.before == 1 || shape.after == 1;
  return is_outer && dense_root_bytes(stack, arithmetic) > 0 &&
         std::min(shape.side, shape.before * shape.after) > mode_tile;
}

std::array<Product, 4> gram_products(const Stack& stack, std::size_t k, const void* terms,
                                     void* sums) {
  const ModeShape shape = mode_shape(stack.extent, k);
  const std::int64_t n = shape.side, others = shape.before * shape.after;
  const bool is_first = shape.before == 1;
  const auto operand = [&](int term, bool transposed) -> Matrices {
    const auto* const first = static_cast<const Bfloat16*>(terms);  // null: only plans are made
    const std::int64_t offset = term * TermLayout::stride(shape.elements());
    return {first == nullptr ? nullptr : first + offset, Type::bfloat16, is_first ? others : n,
            TermLayout::before(stack.stride), transposed};
  };
  // X X^T of X, n x others; X^T X where it lies as others x n.
  const auto product = [&](int left, int right, double alpha, double beta) -> Product {
    return {n,
            n,
            others,
            stack.count,
            operand(left, !is_first),
            operand(right, is_first),
            sums,
            Type::float32,
            n,
            n * n,
            alpha,
            beta};
  };
  return {product(0, 0, 1, 0), product(0, 1, 2, 1), product(0, 2, 2, 1), product(1, 1, 1, 1)};
}

}  // namespace shampoo::kernels::cuda
