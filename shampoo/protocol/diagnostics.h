// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "grouping/plan.h"
#include "kernels/backend.h"
#include "shampoo/options.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

// Texts that ranks compare line by line to locate a mismatch. Each line begins with its subject.

/// Lines about the library, arithmetic, options, recipes, parameters and block owners.
std::string plan_text(const Backend& backend, const OptimizerOptions& options,
                      std::span<const Group* const> groups,
                      std::span<const RegisteredParameter> parameters, const grouping::Plan& plan);
std::string rates_text(std::span<const Group* const> groups);
std::string rates_text(int group, const Rates& rates);
std::string presence_text(std::span<const RegisteredParameter> parameters);

/// Formats a shape: "(3, 4)".
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace shampoo
