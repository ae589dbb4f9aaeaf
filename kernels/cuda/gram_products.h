// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "kernels/cuda/device/device.h"

/// Gram matrices by a library: see gemm/gram_terms.h.
namespace shampoo::kernels::cuda {

/// True if a library computes G G^T of this dimension where HalfGram does not. Its arrays have a
/// root, for which there is dense memory; the dimension is the first or the last; and it is long,
/// and so are all others together.
bool has_library_gram(const Stack& stack, std::size_t k, Type arithmetic);

/// The products whose sum is C; `terms`: of the stack's first block, C: dense.
std::array<Product, 4> gram_products(const Stack& stack, std::size_t k, const void* terms,
                                     void* sums);

}  // namespace shampoo::kernels::cuda
