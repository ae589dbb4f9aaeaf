// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "shampoo/rates.h"
#include "shampoo/recipe.h"

/// Recipes by name.
namespace shampoo::recipes {

/// torch.optim.AdamW: Adam{} as preconditioner, decoupled weight decay, no grafting, no blocks.
/// Reads learning_rate, beta1, beta3, beta2, epsilon, weight_decay [Loshchilov 2019].
Recipe adamw();

/// Stochastic gradient descent with heavy-ball momentum [Polyak 1964], whose first step is not
/// damped, and decoupled weight decay; no filter, no grafting, no blocks. Reads learning_rate,
/// momentum, dampening, weight_decay.
Recipe sgd();
/// learning_rate 1e-2, momentum 0.9.
Rates sgd_rates();

/// Lion [Chen 2023, Algorithm 2]: Sign{} as preconditioner, decoupled weight decay, no grafting, no
/// blocks. The algorithm's beta_1, the interpolation that the sign is taken of, is the rate beta3,
/// and its beta_2, the decay of the momentum, is the rate beta1.
Recipe lion();
/// The defaults of Lion's authors: learning_rate 1e-4, beta3 0.9, beta1 0.99, no weight decay.
Rates lion_rates();

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

/// Schedule-free AdamW: adamw() with ScheduleFree in place of a schedule and of the first moment.
/// Reads learning_rate (constant after a warmup), beta2, epsilon, weight_decay and
/// train_interpolation, which takes beta1's place. Differs from the authors'
/// code (facebookresearch/schedule_free) where that decays the trained point instead of the
/// iterate, and weighs by the largest learning rate so far instead of the present one [Defazio
/// 2024].
Recipe schedule_free_adamw();
/// The authors' defaults for schedule_free_adamw(): learning rate 2.5e-3, train_interpolation 0.9.
Rates schedule_free_adamw_rates();

/// GPA-AdamW: adamw() with PrimalAveraging, the first moment kept and the iterate decayed. Reads
/// the rates of adamw(), train_interpolation and evaluation_interpolation [Defazio 2025b].
Recipe gpa_adamw();
/// The interpolations of the authors' code (gpa_adamw of facebookresearch/optimizers), 0.7 and
/// 0.9967, with the learning rate of torch.optim.AdamW, 1e-3, in place of its 1.
Rates gpa_adamw_rates();

/// SOAP without grafting: Adam in the eigenbases of the factors, refreshed at the first step and
/// then every 10, some blocks in each step [Vyas 2024, section 6: frequency 10] by two QR
/// iterations, which train as well as eigendecompositions (Eigh) in less time:
/// tests/bench/README.md, Training. Vectors have no factor and take Adam's update, as in Vyas
/// 2024's implementation (precondition_1d = False); so do matrices that Blocking::target_order
/// merges into vectors. For rates see soap_rates().
Recipe soap();
/// SOAP as the reference implementation has it (DefaultSOAPConfig): bases by one QR iteration per
/// refresh, all at step 10 and every 10 after it, of vectors too.
Recipe soap_reference();
/// Rates of Vyas 2024's implementation (nikhilvyas/SOAP): learning rate 3e-3, beta1 = beta2 = 0.95,
/// weight decay 0.01.
Rates soap_rates();

/// KL-Shampoo of Lin 2025: exponent 1/2 on each side of a matrix, factors divided by the number of
/// columns that they sum, eigendecompositions every 10 steps. Other orders keep 1 / (2 order).
/// Grafted to Adam, unlike the paper's, which estimates eigenvalues in every step: between two
/// refreshes a gradient may meet an eigenvalue near 0, and without a bound on its norm that
/// direction diverges. For rates see kl_shampoo_rates().
Recipe kl_shampoo();
/// KL-Shampoo with the exponents and statistics of the reference implementation
/// (RootInvKLShampooPreconditionerConfig). For rates see soap_rates().
Recipe kl_shampoo_reference();
/// soap_rates(), as Lin 2025 trains both with the same betas; grafting_beta2 is beta2.
Rates kl_shampoo_rates();

/// The default recipe of the reference implementation (facebookresearch/optimizers f606606): roots
/// every step, absolute epsilon, no grafting.
Recipe reference();
/// The default rates of the reference implementation, for use with reference().
Rates reference_rates();

}  // namespace shampoo::recipes

/// The optimizers of torch.optim (2.15), by the keyword arguments of their constructors. For every
/// class one function gives the recipe and one the rates; a group needs both, of equal options. A
/// recipe throws std::invalid_argument where torch's constructor refuses a combination of options;
/// ranges are checked when an optimizer is constructed, and there epsilon must be greater than 0,
/// momentum and dampening less than 1. With momentum 0 there is no momentum buffer, so momentum
/// cannot be raised from 0 later.
///
/// A parameter without a gradient is skipped, as in torch. foreach, fused, capturable and
/// differentiable do not change the update. Rates of a scheduler are those of the group: lr is
/// learning_rate, betas are beta1 and beta2, alpha is beta2, eps is epsilon, lr_decay is
/// learning_rate_decay.
namespace shampoo::recipes::torch {

/// torch.optim.SGD
struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
/// Throws std::invalid_argument for nesterov without momentum or with dampening.
Recipe sgd(const SgdOptions& options = {});
Rates sgd_rates(const SgdOptions& options = {});

/// torch.optim.Adagrad
struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false;
};
Recipe adagrad(const AdagradOptions& options = {});
Rates adagrad_rates(const AdagradOptions& options = {});

/// torch.optim.RMSprop
struct RmspropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false;
};
Recipe rmsprop(const RmspropOptions& options = {});
Rates rmsprop_rates(const RmspropOptions& options = {});

/// torch.optim.Adam
struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
  bool decoupled_weight_decay = false;  ///< as AdamW
};
Recipe adam(const AdamOptions& options = {});
Rates adam_rates(const AdamOptions& options = {});

/// torch.optim.AdamW
struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false, maximize = false;
};
Recipe adamw(const AdamWOptions& options = {});
Rates adamw_rates(const AdamWOptions& options = {});

}  // namespace shampoo::recipes::torch
