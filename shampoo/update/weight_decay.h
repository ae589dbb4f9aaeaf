// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// G <- G + decay W.
double l2_decay(WeightDecay kind, const Rates& rates);

/// P <- P + decay W, before the step length is applied [Loshchilov 2019]. Divided by the peak
/// learning rate, which is the learning rate unless set, the decay of the weights does not depend
/// on it.
double decoupled_decay(WeightDecay kind, const Rates& rates);

}  // namespace shampoo
