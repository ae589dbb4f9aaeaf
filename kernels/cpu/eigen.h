// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo::kernels {

/// Bytes of scratch memory of a task that decomposes a matrix of this side in either precision.
std::size_t eigen_scratch(std::int64_t side);

/// A (row-major, symmetric) <- its eigenvectors, one per row; values ascending. Cyclic Jacobi
/// rotations [Golub 2013, ch. 8.5], until |a_pq| <= epsilon sqrt(|a_pp a_qq|) for all
/// pairs, which keeps small eigenvalues accurate [Demmel 1992]. `vectors` is scratch
/// memory of side x side elements. False if the rotations did not converge.
template <typename Real>
bool jacobi(std::int64_t side, Real* a, Real* values, Real* vectors);

}  // namespace shampoo::kernels
