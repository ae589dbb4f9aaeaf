// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

/// Recipes by name.
namespace shampoo::recipes {

/// torch.optim.AdamW: Adam{} as preconditioner, decoupled weight decay, no grafting, no blocks.
/// Reads learning_rate, beta1, beta3, beta2, epsilon, weight_decay [Loshchilov 2019].
Recipe adamw();

/// SOAP without grafting: Adam in the eigenbases of the factors, which are decomposed at the first
/// step and every 10 [Vyas 2024, section 6: frequency 10]. For rates see soap_rates().
Recipe soap();
/// SOAP as the reference implementation has it (DefaultSOAPConfig): bases by one QR iteration per
/// refresh, from step 10 on.
Recipe soap_reference();
/// Rates of Vyas 2024's implementation (nikhilvyas/SOAP): learning rate 3e-3, beta1 = beta2 = 0.95,
/// weight decay 0.01.
Rates soap_rates();

/// KL-Shampoo of Lin 2025: exponent 1/2 on each side of a matrix, factors divided by the number of
/// columns that they sum, no grafting, eigendecompositions every 10 steps. Other orders keep
/// 1 / (2 order). For rates see kl_shampoo_rates().
Recipe kl_shampoo();
/// KL-Shampoo with the exponents and statistics of the reference implementation
/// (RootInvKLShampooPreconditionerConfig).
Recipe kl_shampoo_reference();
/// soap_rates() with an epsilon of 1e-8: Lin 2025 trains both with the same betas.
Rates kl_shampoo_rates();

/// The default recipe of the reference implementation (facebookresearch/optimizers f606606): roots
/// every step, absolute epsilon, no grafting.
Recipe reference();
/// The default rates of the reference implementation, for use with reference().
Rates reference_rates();

}  // namespace shampoo::recipes
