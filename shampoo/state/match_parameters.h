// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <vector>

#include "shampoo/state/load_faults.h"
#include "shampoo/state_dict.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// Entries of a state dict matched to the parameters of an optimizer.
struct StateMatch {
  std::vector<const ParameterState*> rows;  ///< entries by row; null: the parameter keeps its state
  std::map<int, GroupRates> rates;          ///< changed rates by group
  std::map<int, Rates> base_rates = {};     ///< likewise
};

/// Matches parameters by name. Shapes, recipes and rates within a group that differ, as far as
/// `options` do not accept that, are faults; parameters without a counterpart are reported.
StateMatch match_parameters(std::span<const RegisteredParameter> parameters, const StateDict& dict,
                            const LoadOptions& options, LoadReport& report, LoadFaults& faults);

/// Throws std::invalid_argument where the load is strict and no parameter of all the optimizers has
/// a name that starts with LoadOptions::prefix.
void require_prefix(std::span<const std::span<const RegisteredParameter>> optimizers,
                    const LoadOptions& options);

}  // namespace shampoo
