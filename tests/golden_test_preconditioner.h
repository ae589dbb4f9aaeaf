// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "shampoo/recipe.h"
#include "tests/golden_test_json.h"

namespace shampoo::test {

/// The kind that a case describes, with its options. Throws std::invalid_argument for a key or
/// value that the library's kinds do not have.
Preconditioner preconditioner_of(Fields fields);
Diagonal grafting_of(Fields fields);

/// The kind of a group that the library does not have; empty: it has all.
std::string unsupported_kind(const Fields& group);

}  // namespace shampoo::test
