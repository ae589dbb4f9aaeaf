// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "grouping/plan.h"
#include "kernels/backend.h"
#include "shampoo/options.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// What ranks compare line by line when they disagree. Each line names what it is about.

/// Library, arithmetic, options, recipes, parameters, owners.
std::string plan_text(const Backend& backend, const OptimizerOptions& options,
                      std::span<const Group* const> groups,
                      std::span<const RegisteredParameter> parameters, const grouping::Plan& plan);
std::string rates_text(std::span<const Group* const> groups);
std::string rates_text(int group, const Rates& rates);
std::string presence_text(std::span<const RegisteredParameter> parameters);

/// Sides as people read them: "(3, 4)".
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace shampoo
