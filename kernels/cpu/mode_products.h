// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

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

/// Sides up to these use products of dense matrices, for which OpenBLAS has kernels without
/// packing; longer ones use symmetric products (syrk, symm) on pair arrays in place.
constexpr std::int64_t longest_dense_factor = 48;
constexpr std::int64_t longest_dense_root = 64;

/// Floating-point operations for one block of the stack, with so many for every element and every
/// place along each dimension that takes part.
inline double product_cost(const Stack& stack, double operations) {
  double sides = 0;
  for (std::size_t k = 0; k < stack.extent.size(); ++k)
    if (stack.factors[k] != nullptr) sides += static_cast<double>(stack.extent[k]);
  return static_cast<double>(elements_of(stack.extent)) * (operations * sides + 1);
}

/// Scratch memory of a task that contracts a block of this extent, dimension by dimension.
template <typename Real>
std::size_t mode_product_scratch(std::span<const std::int64_t> extent) {
  return scratch_bytes<Real>(elements_of(extent)) +
         scratch_bytes<Real>(longest_dense_root * longest_dense_root);
}

}  // namespace shampoo::kernels
