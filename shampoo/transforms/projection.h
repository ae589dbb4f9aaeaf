// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "kernels/elementwise.h"
#include "shampoo/recipe.h"
#include "shampoo/validation/checks.h"

namespace shampoo {

/// Throws std::invalid_argument for options out of range, and for recipes with which new values
/// cannot be projected.
void check_projection(const Recipe& recipe, const Checks& checks);
/// Why a parameter of so many blocks, with values of this type, cannot be projected; empty: it can.
std::string projection_fault(const Recipe& recipe, std::size_t blocks, Type value_type);
/// True if a projection needs the norms of blocks.
bool projects_by_norm(const Recipe& recipe);
/// Without norms.
kernels::ValueProjection projection_of(const Recipe& recipe);

}  // namespace shampoo
