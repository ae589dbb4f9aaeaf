// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace shampoo::test {

/// Joins the job of this process, trains with 1, 28 and 465 groups of two recipes and two types,
/// and returns 0 if every step made exactly one call that `counted` counts; otherwise says which
/// did not, and returns 1.
int check_one_collective(const std::function<std::int64_t()>& counted);

}  // namespace shampoo::test
