// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::kernels {

/// How a direction is computed from the filtered gradient F, element by element: see direction.h.
enum class DirectionRule : std::uint8_t {
  identity,  ///< F
  diagonal,  ///< F / (sqrt(V scale) + epsilon)
  maximal,   ///< diagonal, with the largest V so far in place of V
  centered,  ///< diagonal, with V - A^2 in place of V, A the moving average of G
  sign       ///< sign(F)
};

}  // namespace shampoo::kernels
