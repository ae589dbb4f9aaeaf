// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "grouping/number_text.h"
#include "kernels/facets.h"
#include "shampoo/group.h"
#include "shampoo/update/engine.h"

namespace shampoo {

// Texts that ranks compare line by line to locate a mismatch. Each line begins with its subject.

/// Lines about the library, arithmetic, options, recipes, parameters and block owners.
std::string plan_text(const kernels::Backend& backend, const OptimizerOptions& options,
                      const Engine& engine);
std::string rates_text(std::span<const Group* const> groups);
/// The lines of a group that has these rates.
std::string rates_text(const Group& group, const Rates& rates, std::span<const OwnRate> own);
/// Which gradients are present; and the squared norms of values, unless the list is empty.
std::string tensors_text(std::span<const RegisteredParameter> parameters,
                         std::span<const double> value_norms);

// Hashes of the same, which every step compares.
std::uint64_t rates_hash(std::span<const Group* const> groups);
std::uint64_t tensors_hash(std::span<const RegisteredParameter> parameters,
                           std::span<const double> value_norms);

using grouping::shape_text;

/// Throws std::out_of_range: "group 0: there is no parameter 7 (it has 3, counted from 0)".
[[noreturn]] void fail_index(const std::string& subject, const char* entry,
                             const std::string& index, std::size_t count);

}  // namespace shampoo
