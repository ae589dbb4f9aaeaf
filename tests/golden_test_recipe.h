// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "shampoo/rates.h"
#include "shampoo/recipe.h"
#include "tests/golden_test_json.h"

namespace shampoo::test {

/// The recipe that a case describes, in float64. Throws std::invalid_argument for a key or value
/// that root-inverse Shampoo does not have.
Recipe recipe_of(Fields fields);

/// The rates at construction; those that the recipe reads and the case leaves out are 0.
Rates rates_of(Fields fields, const Recipe& recipe);

/// The library's name of a rate of a case.
std::string rate_name(const std::string& name);

/// Throws std::invalid_argument for an unknown name.
void set_rate(Rates& rates, const std::string& name, double value);

}  // namespace shampoo::test
