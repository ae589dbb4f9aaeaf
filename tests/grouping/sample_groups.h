// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "grouping/planned_group.h"

namespace shampoo::test {

/// What root-inverse Shampoo in float32 costs for a block, refreshed every `interval` steps:
/// 25 d^3 per root, 2 d numel to precondition and (d + 1) numel for a Gram matrix per side d, and
/// 30 operations per element; a factor and its root, and two more numbers per element.
grouping::Work root_inverse_work(const grouping::Shape& extent, std::int64_t interval = 10);

/// The part of its cost that a refresh is: 25 d^3 for each side d.
std::int64_t root_work(const grouping::Shape& extent);

/// A parameter of float32 values, merged and cut to `block_size`, with root_inverse_work() and
/// root_work().
grouping::PlannedParameter parameter(const std::string& name, const grouping::Shape& shape,
                                     std::int64_t block_size, int target_order = 1);

/// Tensor i of the model is in group i mod `groups`; the recipes are all the same, with refreshes
/// that are spread over 10 steps.
std::vector<grouping::PlannedGroup> groups_of(const std::string& model, int groups);

/// Up to 5 groups of up to 5 parameters, of 3 recipes and orders 0 to 4, with sides of 0, 1 and
/// up to 9 that are cut at 1 to 5 or not at all; their names start with `prefix`. Refreshes of one
/// recipe are spread over 4 steps, those of another over 3.
std::vector<grouping::PlannedGroup> random_groups(std::mt19937& random, const std::string& prefix);

}  // namespace shampoo::test
