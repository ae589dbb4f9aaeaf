// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shampoo/state_dict.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// See StateTensor::name().
std::string state_name(std::string_view parameter, std::string_view slot, StateLayout layout,
                       const grouping::Shape& shape, const grouping::Box& box);

/// Throws std::invalid_argument for the name of a parameter that, read as the beginning of a state
/// tensor's name, could also mean a slot of another one: "a/second_moment" beside "a".
void check_names(std::span<const RegisteredParameter> parameters);

}  // namespace shampoo
