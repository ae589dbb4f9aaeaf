// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

/// Recipes by name.
namespace shampoo::recipes {

/// AdamW: Adam's direction with decoupled weight decay. Reads learning_rate, beta1, grafting_beta2,
/// grafting_epsilon, weight_decay.
Recipe adamw();

/// The defaults of the reference implementation (facebookresearch/optimizers f606606): roots every
/// step, absolute epsilon, no grafting; and its rates.
Recipe reference();
Rates reference_rates();

}  // namespace shampoo::recipes
