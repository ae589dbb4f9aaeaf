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

/// Cuts a parameter: fills in its merged shape and its boxes. Throws std::invalid_argument where a
/// block would have a matrix that no solver takes.
void cut(RegisteredParameter& parameter);

/// Cost of the passes of a step over the elements of a block and of its handling, in the unit of
/// preconditioner_work().
std::int64_t passes_work(std::int64_t elements);

/// Cost of a block for its owner, averaged over the refresh interval: see preconditioner_work(),
/// with the passes over its elements; bytes that it sends, bytes of state; and the cost of its
/// refresh, or 0 where refreshes are not spread.
grouping::BlockWork work_of(const Recipe& recipe, const grouping::Box& box, Type value_type);

}  // namespace shampoo
