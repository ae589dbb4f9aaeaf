// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/step_records.h"
#include "shampoo/gradient_options.h"

namespace shampoo {

inline constexpr int most_norms = 1024;  ///< of a SpikeGuard's window

/// Throws std::invalid_argument that names the field and its range.
void check(const GradientOptions& options);

bool is_power_of_two(double x);

/// What a step decides on the backend; without the window of norms.
kernels::GradientRules gradient_rules(const GradientOptions& options);
/// Largest norm of a parameter's gradient; empty: there is none.
std::optional<double> max_parameter_norm(const GradientOptions& options);
/// Largest absolute value of an element; may be infinite.
double value_limit(const GradientOptions& options);
/// Before the first step.
kernels::LossScale initial_loss_scale(const GradientOptions& options);

}  // namespace shampoo
