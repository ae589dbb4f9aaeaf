// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace shampoo {

/// sum <- (part_0 + part_1 + ... + part_{n-1}) / divisor, element by element, in this order, for n
/// parts of `count` numbers that lie back to back. Computed in float64 for float64 and in float32
/// for the others, and rounded once. `sum` may be the first part.
void sum_in_order(const void* parts, int n, std::int64_t count, Type type, double divisor,
                  void* sum);

}  // namespace shampoo
