// SPDX-License-Identifier: Apache-2.0
#include "shampoo/gradients/gradient_rules.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "grouping/number_text.h"

namespace shampoo {

namespace {

/// With products of such scales and any clip factor, squares keep their digits in float32.
constexpr double least_scale = 0x1p-32, largest_scale = 0x1p32;

bool is_power_of_two(double x) {
  int exponent = 0;
  return x > 0 && std::frexp(x, &exponent) == 0.5;
}

void require(bool holds, std::string_view field, std::string_view range, double found) {
  if (!holds)
    throw std::invalid_argument("options: gradients." + std::string(field) + " must be " +
                                std::string(range) + ", got " + grouping::exact_text(found));
}

void require_power(std::string_view field, double value, double least, double most,
                   std::string_view range) {
  require(is_power_of_two(value) && value >= least && value <= most, field,
          "a power of two in " + std::string(range), value);
}

void require_positive(std::string_view field, double value) {
  require(value > 0 && std::isfinite(value), field, "in (0, inf)", value);
}

void check(const NoLossScale&) {}
void check(const FixedLossScale& fixed) {
  require_power("loss_scaling.scale", fixed.scale, least_scale, largest_scale, "[2^-32, 2^32]");
}
void check(const DynamicLossScale& dynamic) {
  require_power("loss_scaling.floor", dynamic.floor, least_scale, largest_scale, "[2^-32, 2^32]");
  require_power("loss_scaling.ceiling", dynamic.ceiling, dynamic.floor, largest_scale,
                "[floor, 2^32]");
  require_power("loss_scaling.initial", dynamic.initial, dynamic.floor, dynamic.ceiling,
                "[floor, ceiling]");
  require_power("loss_scaling.growth", dynamic.growth, 1, 0x1p16, "[1, 2^16]");
  require_power("loss_scaling.backoff", dynamic.backoff, 0x1p-16, 0.5, "[2^-16, 1)");
  require(dynamic.interval >= 1, "loss_scaling.interval", ">= 1", dynamic.interval);
}

void check(const NoClipping&) {}
void check(const ClipGlobalNorm& clip) { require_positive("clipping.max_norm", clip.max_norm); }
void check(const ClipParameterNorm& clip) { require_positive("clipping.max_norm", clip.max_norm); }
void check(const ClipValue& clip) { require_positive("clipping.limit", clip.limit); }

}  // namespace

void check(const GradientOptions& options) {
  std::visit([](const auto& kind) { check(kind); }, options.loss_scaling);
  std::visit([](const auto& kind) { check(kind); }, options.clipping);
  const SpikeGuard& guard = options.spike_guard;
  require_positive("spike_guard.deviations", guard.deviations);
  require(guard.window == 0 || (guard.window >= 2 && guard.window <= 1024), "spike_guard.window",
          "0 or in [2, 1024]", guard.window);
}

kernels::GradientRules gradient_rules(const GradientOptions& options) {
  kernels::GradientRules rules;
  if (const auto* dynamic = std::get_if<DynamicLossScale>(&options.loss_scaling))
    rules.loss_scale = {.interval = dynamic->interval,
                        .growth = static_cast<float>(dynamic->growth),
                        .backoff = static_cast<float>(dynamic->backoff),
                        .floor = static_cast<float>(dynamic->floor),
                        .ceiling = static_cast<float>(dynamic->ceiling)};
  if (const auto* clip = std::get_if<ClipGlobalNorm>(&options.clipping))
    rules.max_norm = clip->max_norm;
  rules.norm_limit = {.deviations = options.spike_guard.deviations,
                      .window = options.spike_guard.window};
  return rules;
}

std::optional<double> max_parameter_norm(const GradientOptions& options) {
  if (const auto* clip = std::get_if<ClipParameterNorm>(&options.clipping)) return clip->max_norm;
  return std::nullopt;
}

double value_limit(const GradientOptions& options) {
  const auto* const clip = std::get_if<ClipValue>(&options.clipping);
  return clip ? clip->limit : std::numeric_limits<double>::infinity();
}

kernels::LossScale initial_loss_scale(const GradientOptions& options) {
  double scale = 1;
  if (const auto* fixed = std::get_if<FixedLossScale>(&options.loss_scaling)) scale = fixed->scale;
  if (const auto* dynamic = std::get_if<DynamicLossScale>(&options.loss_scaling))
    scale = dynamic->initial;
  return {.scale = static_cast<float>(scale), .inverse = 1 / scale};
}

}  // namespace shampoo
