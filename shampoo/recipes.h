// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

/// Recipes by name.
namespace shampoo::recipes {

/// torch.optim.AdamW: Adam{} as preconditioner, decoupled weight decay, no grafting, no blocks.
/// Reads learning_rate, beta1, beta3, beta2, epsilon, weight_decay [Loshchilov 2019].
Recipe adamw();

/// The default recipe of the reference implementation (facebookresearch/optimizers f606606): roots
/// every step, absolute epsilon, no grafting.
Recipe reference();
/// The default rates of the reference implementation, for use with reference().
Rates reference_rates();

}  // namespace shampoo::recipes
