// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

/// Recipes by name.
namespace shampoo::recipes {

/// torch.optim.AdamW: Adam{} as preconditioner, decoupled weight decay, no grafting, no blocks.
/// Reads learning_rate, beta1, beta3, beta2, epsilon, weight_decay [Loshchilov 2019].
Recipe adamw();

/// Schedule-free AdamW: adamw() with ScheduleFree in place of a schedule and of the first moment.
/// Reads learning_rate (constant after a warmup), beta2, epsilon, weight_decay and
/// train_interpolation, which takes beta1's place; beta1 should be 0. Differs from the authors'
/// code (facebookresearch/schedule_free) where that decays the trained point instead of the
/// iterate, and weighs by the largest learning rate so far instead of the present one [Defazio
/// 2024].
Recipe schedule_free_adamw();
/// The authors' defaults for schedule_free_adamw(): learning rate 2.5e-3, beta1 0,
/// train_interpolation 0.9.
Rates schedule_free_adamw_rates();

/// GPA-AdamW: adamw() with PrimalAveraging, the first moment kept and the iterate decayed. Reads
/// the rates of adamw(), train_interpolation and evaluation_interpolation [Defazio 2025b].
Recipe gpa_adamw();
/// The interpolations of the authors' code (gpa_adamw of facebookresearch/optimizers), 0.7 and
/// 0.9967, with the learning rate of torch.optim.AdamW, 1e-3, in place of its 1.
Rates gpa_adamw_rates();

/// The default recipe of the reference implementation (facebookresearch/optimizers f606606): roots
/// every step, absolute epsilon, no grafting.
Recipe reference();
/// The default rates of the reference implementation, for use with reference().
Rates reference_rates();

}  // namespace shampoo::recipes
