// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <vector>

#include "shampoo/state_dict.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// Entries of a state dict matched to the parameters of an optimizer.
struct Match {
  std::vector<const ParameterState*> rows;  ///< entries by row; null: the parameter keeps its state
  std::map<int, Rates> rates;               ///< changed rates by group
};

/// Matches parameters by name. Throws std::invalid_argument if shapes, recipes or the rates within
/// a group differ, as far as `options` do not accept that; reports parameters without a
/// counterpart.
Match match_parameters(std::span<const RegisteredParameter> parameters, const StateDict& dict,
                       const LoadOptions& options, LoadReport& report);

}  // namespace shampoo
