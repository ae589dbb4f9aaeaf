// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shampoo/state_dict.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// Name of a state tensor; see StateTensor::name().
std::string state_name(std::string_view parameter, std::string_view slot, StateLayout layout,
                       const grouping::Shape& shape, const grouping::Box& box);

/// Throws std::invalid_argument if a parameter's name is ambiguous as a prefix of state tensor
/// names, that is, could also denote a slot of another parameter: "a/second_moment" in addition to
/// "a".
void check_names(std::span<const RegisteredParameter> parameters);

}  // namespace shampoo
