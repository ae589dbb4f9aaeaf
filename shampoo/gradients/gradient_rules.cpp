// SPDX-License-Identifier: Apache-2.0
#include "shampoo/gradients/gradient_rules.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "shampoo/validation/checks.h"

namespace shampoo {

namespace {

/// With products of such scales and any clip factor, squares keep their digits in float32.
constexpr double least_scale = 0x1p-32, largest_scale = 0x1p32;

void require_power(const Checks& checks, std::string_view field, double value, double least,
                   double most, std::string_view range) {
  checks.require(is_power_of_two(value) && value >= least && value <= most, field,
                 "a power of two in " + std::string(range), value);
}

void check(const NoLossScale&, const Checks&) {}
void check(const FixedLossScale& fixed, const Checks& checks) {
  require_power(checks, "scale", fixed.scale, least_scale, largest_scale, "[2^-32, 2^32]");
}
void check(const DynamicLossScale& dynamic, const Checks& checks) {
  require_power(checks, "floor", dynamic.floor, least_scale, largest_scale, "[2^-32, 2^32]");
  require_power(checks, "ceiling", dynamic.ceiling, dynamic.floor, largest_scale, "[floor, 2^32]");
  require_power(checks, "initial", dynamic.initial, dynamic.floor, dynamic.ceiling,
                "[floor, ceiling]");
  require_power(checks, "growth", dynamic.growth, 1, 0x1p16, "[1, 2^16]");
  require_power(checks, "backoff", dynamic.backoff, 0x1p-16, 0.5, "[2^-16, 1)");
  checks.at_least_one("interval", dynamic.interval);
}

void check(const NoClipping&, const Checks&) {}
void check(const ClipGlobalNorm& clip, const Checks& checks) {
  checks.positive("max_norm", clip.max_norm);
}
void check(const ClipParameterNorm& clip, const Checks& checks) {
  checks.positive("max_norm", clip.max_norm);
}
void check(const ClipValue& clip, const Checks& checks) { checks.positive("limit", clip.limit); }

}  // namespace

bool is_power_of_two(double x) {
  int exponent = 0;
  return x > 0 && std::frexp(x, &exponent) == 0.5;
}

void check(const GradientOptions& options) {
  const Checks checks = Checks("options").within("gradients");
  const auto check_kind = [&](const auto& kinds, std::string_view field) {
    const Checks inner = checks.within(field);
    std::visit([&](const auto& kind) { check(kind, inner); }, kinds);
  };
  check_kind(options.loss_scaling, "loss_scaling");
  check_kind(options.clipping, "clipping");
  const SpikeGuard& guard = options.spike_guard;
  checks.positive("spike_guard.deviations", guard.deviations);
  checks.require(guard.window == 0 || (guard.window >= 2 && guard.window <= most_norms),
                 "spike_guard.window", "0 or in [2, " + std::to_string(most_norms) + "]",
                 guard.window);
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
