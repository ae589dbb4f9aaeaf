// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/facets.h"
#include "shampoo/group.h"
#include "shampoo/update/engine.h"

namespace shampoo {

// Texts that ranks compare line by line to locate a mismatch. Each line begins with its subject.

/// Lines about the library, arithmetic, options, recipes, parameters and block owners.
std::string plan_text(const kernels::Backend& backend, const OptimizerOptions& options,
                      const Engine& engine);
std::string rates_text(std::span<const Group* const> groups);
std::string rates_text(int group, const Rates& rates);
std::string presence_text(std::span<const RegisteredParameter> parameters);

// Hashes of the same, which every step compares.
std::uint64_t rates_hash(std::span<const Group* const> groups);
std::uint64_t presence_hash(std::span<const RegisteredParameter> parameters);

/// Formats a shape: "(3, 4)".
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace shampoo
