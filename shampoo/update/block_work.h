// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grouping/plan.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// Cuts a parameter: fills in its merged shape and its boxes.
void cut(RegisteredParameter& parameter);

/// What a block asks of its owner: time of roots over the refresh interval and of the products of
/// every step, bytes that it sends, bytes of state.
grouping::Work work_of(const Recipe& recipe, const grouping::Box& box, Type value_type);

/// The phase of every block of one virtual group in the staggered refresh, in plan order: each
/// block goes to the step of the interval that has least work so far.
std::vector<std::int64_t> stagger(const Recipe& recipe, std::span<const grouping::Work> works);

}  // namespace shampoo
