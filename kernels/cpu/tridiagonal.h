// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo::kernels {

/// Bytes of scratch memory of a task of tridiagonal_root() in either precision.
std::size_t tridiagonal_scratch(std::int64_t side);

}  // namespace shampoo::kernels
