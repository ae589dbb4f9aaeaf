// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shampoo/routes.h"

namespace shampoo {

/// A recipe of recipes.h with its rates, by the name of its function; "shampoo" is Recipe(). Empty
/// for another name.
std::optional<Route> recipe_named(std::string_view name);
/// All names.
std::string recipe_names_text();

}  // namespace shampoo
