// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// G <- G + decay W.
double l2_decay(WeightDecay kind, const Rates& rates);

/// P <- P + decay W, before P is multiplied by `learning_rate`, the step's. With the rates'
/// learning_rate lr and peak_learning_rate peak, which is set where it is read, the decay is
/// weight_decay for `decoupled` [Loshchilov 2019], weight_decay lr / peak for `corrected` [Defazio
/// 2025a], weight_decay / peak for `independent` [Loshchilov 2019, Algorithm 2], weight_decay /
/// `learning_rate` for `plain`, and 0 for `l2`.
double decoupled_decay(WeightDecay kind, const Rates& rates, double learning_rate);

}  // namespace shampoo
