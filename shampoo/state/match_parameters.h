// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <vector>

#include "shampoo/state_dict.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// What a state dict says of the parameters of an optimizer.
struct Match {
  std::vector<const ParameterState*> rows;  ///< of every row; null: the parameter keeps its state
  std::map<int, Rates> rates;               ///< by group: those that a load changes
};

/// Finds the parameters of a state dict by name. Throws std::invalid_argument for another shape,
/// recipe or unequal rates, as the options say; adds to the report what has no counterpart.
Match match_parameters(std::span<const RegisteredParameter> parameters, const StateDict& dict,
                       const LoadOptions& options, LoadReport& report);

}  // namespace shampoo
