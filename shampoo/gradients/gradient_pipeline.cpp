// SPDX-License-Identifier: Apache-2.0
#include "shampoo/gradients/gradient_pipeline.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "shampoo/gradients/gradient_rules.h"

namespace shampoo {

GradientPipeline::GradientPipeline(kernels::Backend& backend, const GradientOptions& options,
                                   kernels::GradientState* state)
    : backend_(backend),
      state_(state),
      initial_(initial_loss_scale(options)),
      max_parameter_norm_(shampoo::max_parameter_norm(options)),
      value_limit_(shampoo::value_limit(options)),
      norms_(backend,
             static_cast<std::size_t>(std::clamp(options.spike_guard.window, 0, most_norms)) *
                 sizeof(double)),
      numbers_(backend, 2 * sizeof(double)),
      rules_(gradient_rules(options)) {
  rules_.norm_limit.norms = static_cast<double*>(norms_.data());
  const double one = 1;
  backend_.upload(numbers_.data(), &one, sizeof(one));
  backend_.synchronize();
}

void GradientPipeline::set_unscaled() {
  backend_.copy(&state_->now.inverse, numbers_.data(), sizeof(double));
}

kernels::GradientState GradientPipeline::taken_back(kernels::GradientState seen) {
  seen.now = seen.before;
  if (std::exchange(seen.added_norm, 0) == 0) return seen;
  const std::int64_t place = --seen.norms % rules_.norm_limit.window;
  backend_.upload(rules_.norm_limit.norms + place, &seen.replaced_norm, sizeof(double));
  backend_.synchronize();
  return seen;
}

void GradientPipeline::save(const kernels::GradientState& seen, Progress& progress) const {
  if (skips_overflows()) {
    progress.loss_scale = seen.now.scale;
    progress.good_steps = seen.now.good_steps;
  }
  const std::int64_t window = rules_.norm_limit.window;
  if (window == 0) return;
  std::vector<double> norms(static_cast<std::size_t>(window));
  backend_.download(norms.data(), norms_.data(), norms_.bytes());
  backend_.synchronize();
  for (std::int64_t n = std::max<std::int64_t>(0, seen.norms - window); n < seen.norms; ++n)
    progress.gradient_norms.push_back(norms[static_cast<std::size_t>(n % window)]);
}

kernels::GradientState GradientPipeline::load(const Progress& progress) {
  kernels::GradientState state;
  state.now = initial_;
  const kernels::LossScaleUpdate& update = rules_.loss_scale;
  if (skips_overflows() && progress.loss_scale > 0) {
    state.now.scale =
        std::clamp(static_cast<float>(progress.loss_scale), update.floor, update.ceiling);
    state.now.good_steps = static_cast<std::int32_t>(progress.good_steps);
    state.now.inverse = 1 / static_cast<double>(state.now.scale);
  }
  state.before = state.now;
  state.norms = write_norms(progress);
  return state;
}

/// The newest of the saved norms, as many as the window has. Returns how many.
std::int64_t GradientPipeline::write_norms(const Progress& progress) {
  const std::size_t count =
      std::min(progress.gradient_norms.size(), static_cast<std::size_t>(rules_.norm_limit.window));
  const std::vector<double> newest(
      progress.gradient_norms.end() - static_cast<std::ptrdiff_t>(count),
      progress.gradient_norms.end());
  if (count > 0) backend_.upload(norms_.data(), newest.data(), count * sizeof(double));
  backend_.synchronize();
  return static_cast<std::int64_t>(count);
}

}  // namespace shampoo
