// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/rules/arithmetic.h"
#include "kernels/step_records.h"

namespace shampoo::kernels {

/// min(1, max_norm / (|g| + 1e-6)), the factor of torch.nn.utils.clip_grad_norm_; 1 where the norm
/// is not finite.
SHAMPOO_RULE double clip_factor(double max_norm, double squared_norm) {
  if (!is_finite(squared_norm)) return 1;
  const double factor = max_norm / (root(squared_norm) + 1e-6);
  return factor < 1 ? factor : 1;
}

/// scale <- max(floor, backoff scale) after an overflow, min(ceiling, growth scale) after
/// `interval` steps in a row without: torch.amp's GradScaler, with limits.
SHAMPOO_RULE LossScale updated_loss_scale(const LossScaleUpdate& update, LossScale from,
                                          bool overflows) {
  LossScale to = from;
  if (update.interval > 0 && overflows) {
    const float smaller = update.backoff * from.scale;
    to.scale = smaller > update.floor ? smaller : update.floor;
    to.good_steps = 0;
  } else if (update.interval > 0 && ++to.good_steps >= update.interval) {
    const float larger = update.growth * from.scale;
    to.scale = larger < update.ceiling ? larger : update.ceiling;
    to.good_steps = 0;
  }
  to.inverse = 1 / static_cast<double>(to.scale);
  return to;
}

/// Whether x exceeds mean + deviations sigma of the window, with sigma^2 = sum (x_i - mean)^2 / (n
/// - 1); never while the window is not full, or where all its norms are equal.
SHAMPOO_RULE bool is_outlier(const NormLimit& limit, std::int64_t norms, double x) {
  if (norms < limit.window) return false;
  double sum = 0, squares = 0;
  for (std::int32_t i = 0; i < limit.window; ++i) sum += limit.norms[i];
  const double mean = sum / limit.window;
  for (std::int32_t i = 0; i < limit.window; ++i)
    squares += (limit.norms[i] - mean) * (limit.norms[i] - mean);
  const double sigma = root(squares / (limit.window - 1));
  return sigma > 0 && x > mean + limit.deviations * sigma;
}

/// Compares a finite norm with the window, and adds it: a lasting change becomes usual.
SHAMPOO_RULE void judge_norm(const NormLimit& limit, double norm, ScanResult& result,
                             GradientState& state) {
  if (limit.window == 0 || !is_finite(norm)) return;
  state.outlier = is_outlier(limit, state.norms, norm) ? 1 : 0;
  if (state.outlier != 0) result.proceed = 0;
  double& oldest = limit.norms[state.norms % limit.window];
  state.replaced_norm = oldest;
  oldest = norm;
  ++state.norms;
  state.added_norm = 1;
}

/// The part of StepGuard::admit() that is about gradients. A step that was not admitted leaves the
/// loss scale and the window alone.
SHAMPOO_RULE void judge_gradients(const GradientRules& rules, bool admitted, bool overflows,
                                  ScanResult& result, GradientState& state) {
  state.before = state.now;
  state.added_norm = state.outlier = 0;
  state.clip_factor = clip_factor(rules.max_norm, result.squared_norm);
  state.scale = state.now.inverse * state.clip_factor;
  if (!admitted) return;
  state.now = updated_loss_scale(rules.loss_scale, state.now, overflows);
  judge_norm(rules.norm_limit, root(result.squared_norm), result, state);
}

}  // namespace shampoo::kernels
