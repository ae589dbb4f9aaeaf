// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo::kernels {

/// Scratch memory of a task that decomposes a matrix of this side in either precision.
std::size_t eigen_scratch(std::int64_t side);

/// A (row-major, symmetric) <- its eigenvectors, one per row; values ascending. `vectors` is
/// scratch memory of side x side elements. Returns whether the rotations converged.
template <typename Real>
bool jacobi(std::int64_t side, Real* a, Real* values, Real* vectors);

}  // namespace shampoo::kernels
