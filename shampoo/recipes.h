// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

/// Recipes by name.
namespace shampoo::recipes {

/// torch.optim.AdamW: Adam{} as preconditioner, decoupled weight decay, no grafting, no blocks.
/// Reads learning_rate, beta1, beta3, beta2, epsilon, weight_decay [Loshchilov 2019].
Recipe adamw();

/// Muon [Jordan 2024] for the hidden matrices of a network, and for convolutions, whose trailing
/// dimensions are merged: Spectral with NewtonSchulz and match_rms, decoupled weight decay, no
/// grafting, no blocks. Learning rate and weight decay are then those that AdamW would have
/// [Liu 2025]. Embeddings, heads, vectors and scalars go into another group, for instance with
/// adamw(). Reads learning_rate, beta1, beta3, weight_decay.
Recipe muon();
/// The default rates of torch.optim.Muon, for use with muon(): learning rate 1e-3, weight decay 0.1
/// and Nesterov's momentum of 0.95, which is beta1 = 0.95 with beta3 = beta1^2: with the moving
/// average M = beta1 M' + (1 - beta1) G, its direction beta1 M + (1 - beta1) G is beta1^2 M' +
/// (1 - beta1^2) G. Without Nesterov, beta3 is left empty.
Rates muon_rates();
/// Spectral descent with the defaults of the reference implementation: muon() without a scale.
Recipe reference_muon();

/// The default recipe of the reference implementation (facebookresearch/optimizers f606606): roots
/// every step, absolute epsilon, no grafting.
Recipe reference();
/// The default rates of the reference implementation, for use with reference().
Rates reference_rates();

}  // namespace shampoo::recipes
