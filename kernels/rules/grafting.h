// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/elementwise.h"
#include "kernels/rules/arithmetic.h"
#include "kernels/rules/update_rule.h"

namespace shampoo::kernels {

/// Grafting [Agarwal 2020]: |graft(F)| / (|P| + 1e-16) where a block takes the grafting's norm,
/// otherwise 1.
SHAMPOO_RULE double norm_ratio(const UpdatePass& pass, Mode mode, std::int32_t block) {
  if (mode != Mode::preconditioned || pass.grafting_norms == nullptr) return 1;
  return root(pass.grafting_norms[block]) / (root(pass.direction_norms[block]) + 1e-16);
}

/// P <- ratio P min(1, limit sqrt(n) / |ratio P|) [Shazeer 2018, section 6], or
/// D <- D min(most, limit |W| / |D|), with D = ratio P + decay W [You 2017], [You 2020].
SHAMPOO_RULE DirectionFactors direction_factors(const UpdatePass& pass, Mode mode,
                                                const Coefficients& coefficients,
                                                std::int64_t elements, std::int32_t block) {
  const double ratio = norm_ratio(pass, mode, block);
  const double step = pass.rate_factor != nullptr ? *pass.rate_factor : 1;
  if (pass.scaling.rule == ScalingRule::none) return {ratio, 1, step};
  const DirectionSums& sums = pass.scaling.sums[block];
  if (pass.scaling.rule == ScalingRule::clip) {
    const double norm = ratio * root(sums.direction);
    const double most = pass.scaling.limit * root(static_cast<double>(elements));
    return {norm > most ? ratio * (most / norm) : ratio, 1, step};
  }
  const double decay = coefficients.decay;
  const double squared =
      ratio * ratio * sums.direction + 2 * ratio * decay * sums.mixed + decay * decay * sums.values;
  if (!(squared > 0 && sums.values > 0)) return {ratio, 1, step};
  const double trust = pass.scaling.limit * root(sums.values) / root(squared);
  const double factor = trust < pass.scaling.most ? trust : pass.scaling.most;
  return {ratio * factor, factor, step};
}

/// Whether a block takes its step: not if its direction, or the factor to the grafting's norm, is
/// not finite.
template <typename Real>
SHAMPOO_RULE bool takes_step(const UpdatePass& pass, Mode mode, std::int32_t block) {
  if (mode != Mode::absent && pass.scaling.sums != nullptr &&
      !is_finite(pass.scaling.sums[block].direction))
    return false;
  if (mode != Mode::preconditioned || pass.direction_norms == nullptr) return true;
  return is_finite(pass.direction_norms[block]) &&
         is_finite(static_cast<Real>(norm_ratio(pass, mode, block)));
}

/// Counts a block that does not take its step.
SHAMPOO_RULE void count_direction(const PassContext& context, const UpdatePass& pass,
                                  std::int32_t block, NonFiniteDirections& count) {
  const bool takes = context.elements.arithmetic == Type::float64
                         ? takes_step<double>(pass, context.modes[block], block)
                         : takes_step<float>(pass, context.modes[block], block);
  if (takes) return;
  ++count.blocks;
  const std::int32_t tensor = context.elements.blocks[block].tensor;
  if (count.first_tensor < 0 || tensor < count.first_tensor) count.first_tensor = tensor;
}

/// What a block that takes no step sends in place of an update: W + U is W, its sign too.
template <typename Real>
SHAMPOO_RULE Real no_update() {
  return -Real(0);
}

}  // namespace shampoo::kernels
