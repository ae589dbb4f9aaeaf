// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/elementwise.h"
#include "kernels/rules/arithmetic.h"

namespace shampoo::kernels {

/// Grafting [Agarwal 2020]: |graft(F)| / (|P| + 1e-16) where a block takes the grafting's norm,
/// otherwise 1.
SHAMPOO_RULE double norm_ratio(const UpdatePass& pass, Mode mode, std::int32_t block) {
  if (mode != Mode::preconditioned || pass.grafting_norms == nullptr) return 1;
  return root(pass.grafting_norms[block]) / (root(pass.direction_norms[block]) + 1e-16);
}

}  // namespace shampoo::kernels
