// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/threads/scratch.h"
#include "kernels/views.h"

namespace shampoo::kernels {

/// One dimension of a row-major tensor: before x side x after.
struct Dimension {
  std::int64_t before = 1, side = 1, after = 1;
};

inline Dimension dimension_of(std::span<const std::int64_t> extent, std::size_t k) {
  Dimension at;
  for (std::size_t i = 0; i < k; ++i) at.before *= extent[i];
  at.side = extent[k];
  for (std::size_t i = k + 1; i < extent.size(); ++i) at.after *= extent[i];
  return at;
}

inline std::int64_t elements_of(std::span<const std::int64_t> extent) {
  std::int64_t product = 1;
  for (const std::int64_t side : extent) product *= side;
  return product;
}

/// Factors up to this side, where there is no block product, use products of dense matrices, for
/// which OpenBLAS has kernels without packing; longer ones use syrk in place.
constexpr std::int64_t longest_dense_factor = 48;
/// Roots up to this side are made dense for each product; longer ones use symm in place.
constexpr std::int64_t longest_dense_root = longest_block_side;

/// Floating-point operations for one block of the stack, with so many for every element and every
/// place along each dimension that takes part.
inline double product_cost(const Stack& stack, double operations) {
  double sides = 0;
  for (std::size_t k = 0; k < stack.extent.size(); ++k)
    if (stack.factors[k] != nullptr) sides += static_cast<double>(stack.extent[k]);
  return static_cast<double>(elements_of(stack.extent)) * (operations * sides + 1);
}

/// Elements of a dense factor that is formed before it is added: of sides without a product in
/// place.
inline std::int64_t dense_factor_elements(const Stack& stack) {
  std::int64_t side = longest_dense_factor;
  if (is_packed(stack.layout))
    for (std::size_t k = 0; k < stack.extent.size(); ++k)
      if (stack.factors[k] != nullptr) side = std::max(side, stack.extent[k]);
  return side * side;
}

/// Elements of a dense root that a product reads in place of the array.
inline std::int64_t dense_root_elements(const Stack& stack) {
  std::int64_t longest = 0;
  for (std::size_t k = 0; k < stack.extent.size(); ++k) {
    const std::int64_t side = stack.extent[k];
    if (stack.factors[k] != nullptr &&
        (side <= longest_dense_root || stack.layout == FactorLayout::with_float16_root))
      longest = std::max(longest, side);
  }
  return longest * longest;
}

/// Elements of the transpose of a basis that a product may need.
inline std::int64_t transposed_basis_elements(const Stack& stack) {
  std::int64_t most = 0;
  for (std::size_t k = 0; k < stack.bases.size(); ++k) {
    const std::int64_t n = stack.extent[k];
    if (stack.bases[k] != nullptr && n * n <= most_unpacked_products) most = std::max(most, n * n);
  }
  return most;
}

/// Elements of scratch memory of a product along one dimension.
inline std::int64_t product_scratch(const Stack& stack) {
  std::int64_t longest = 0;
  for (std::size_t k = 0; k < stack.extent.size(); ++k) {
    const Dimension at = dimension_of(stack.extent, k);
    longest = std::max({longest, at.before, at.side, at.after});
  }
  return std::max(transposed_basis_elements(stack), block_product_scratch(longest));
}

/// Scratch memory of a task that contracts a block of this stack, dimension by dimension.
template <typename Real>
std::size_t mode_product_scratch(const Stack& stack) {
  const std::int64_t elements = elements_of(stack.extent);
  // with P where precondition_and_update() has roots
  const int arrays = stack.bases.empty() ? 2 : 1;
  const std::size_t contraction = arrays * scratch_bytes<Real>(elements) +
                                  scratch_bytes<Real>(product_scratch(stack)) +
                                  std::max(scratch_bytes<Real>(dense_root_elements(stack)),
                                           scratch_bytes<Real>(dense_factor_elements(stack)));
  const std::size_t rotation =
      2 * scratch_bytes<Real>(elements) + scratch_bytes<Real>(product_scratch(stack));
  // H and G of whitened factors, in addition to both
  const std::size_t whitening = stack.whitens ? 3 * scratch_bytes<Real>(elements) : 0;
  const std::size_t dense = scratch_bytes<Real>(dense_root_elements(stack)) +
                            scratch_bytes<Real>(dense_factor_elements(stack)) +
                            scratch_bytes<Real>(product_scratch(stack));
  if (stack.whitens) return contraction + rotation + whitening + dense;
  return std::max(contraction, stack.bases.empty() ? 0 : rotation);
}

}  // namespace shampoo::kernels
