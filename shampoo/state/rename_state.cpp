// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/rename_state.h"

#include "shampoo/state/export_state.h"

namespace shampoo {

StateDict renamed_copy(const StateDict& dict,
                       const std::function<std::string(const std::string&)>& rename) {
  StateDict renamed = dict;
  for (ParameterState& parameter : renamed.parameters) parameter.name = rename(parameter.name);
  for (StateTensor& tensor : renamed.tensors) tensor.parameter = rename(tensor.parameter);
  sort_by_name(renamed);
  return renamed;
}

}  // namespace shampoo
