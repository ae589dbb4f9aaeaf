// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/recipe.h"
#include "shampoo/validation/checks.h"

namespace shampoo {

/// Throws std::invalid_argument for options of a solver out of range.
void check_solver(const Solver& solver, Arithmetic arithmetic, const Checks& checks);

/// The same for eigenbases. `directions`: pseudo-inverses and floors have a meaning.
void check_basis_method(const BasisMethod& method, bool directions, const Checks& checks);

/// The same for an inverse exponent that the solver has to take; 0 leaves a dimension alone.
void check_exponent(double exponent, const Solver& solver, const Checks& checks);

}  // namespace shampoo
