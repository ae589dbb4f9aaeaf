// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "shampoo/optimizer_parts.h"
#include "shampoo/state/export_state.h"
#include "shampoo/state/gather_state.h"
#include "shampoo/state/import_state.h"
#include "shampoo/state/match_parameters.h"
#include "shampoo/state/optimizer_access.h"
#include "shampoo/state/rename_state.h"

namespace shampoo {

StateDict Optimizer::state_dict(const StateDictOptions& options) const {
  parts_->protocol.wait_for_previous();
  parts_->protocol.check_usable();
  parts_->protocol.require_training("state_dict");
  StateDict dict = export_state(parts_->backend, *parts_->engine, options);
  dict.progress = parts_->protocol.progress();
  return dict;
}

StateDict Optimizer::full_state_dict(const StateDictOptions& options, Gather gather) {
  parts_->protocol.wait_for_previous();
  parts_->protocol.join_usable();
  StateDict own;
  parts_->protocol.vote(collecting_state, "request", [&] {
    parts_->protocol.require_training("full_state_dict");
    own = state_dict(options);
    return std::string("state dict: derived ") + (options.derived ? "true" : "false") +
           ", contents " + (options.contents ? "true" : "false") + ", gathered " +
           (gather == Gather::everywhere ? "everywhere" : "on rank 0");
  });
  return gather_state(parts_->backend, parts_->communicator, parts_->protocol, std::move(own),
                      options, gather,
                      std::max<std::int64_t>(1, gather_bytes / parts_->communicator.size()));
}

LoadReport Optimizer::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateDict renamed;
  std::optional<StateImport> state;
  const auto examine = [&] {
    const auto own = std::as_const(*parts_->engine).parameters();
    require_prefix({&own, 1}, options);
    if (options.rename) renamed = renamed_copy(dict, options.rename);
    state.emplace(parts_->backend, *parts_->engine, options.rename ? renamed : dict, options);
    return state->lines();
  };
  parts_->protocol.load(examine, [&](Statistics& statistics) {
    OptimizerAccess::replace_rates(*this, *state);
    state->replace(statistics);
    return dict.progress;
  });
  return std::move(state->report());
}

kernels::Backend& OptimizerAccess::backend(const Optimizer& optimizer) {
  return optimizer.parts_->backend;
}
Communicator& OptimizerAccess::communicator(const Optimizer& optimizer) {
  return optimizer.parts_->communicator;
}
StepProtocol& OptimizerAccess::protocol(const Optimizer& optimizer) {
  return optimizer.parts_->protocol;
}
Engine& OptimizerAccess::engine(const Optimizer& optimizer) { return *optimizer.parts_->engine; }
void OptimizerAccess::replace_rates(Optimizer& optimizer, const StateImport& state) {
  Optimizer::Parts& parts = *optimizer.parts_;
  for (const auto& [group, rates] : state.rates()) parts.groups[group]->replace_rates(rates);
  for (const auto& [group, rates] : state.base_rates()) parts.groups[group]->base_rates = rates;
  parts.schedules.forget_values();
}
CheckpointLineage& OptimizerAccess::lineage(const Optimizer& optimizer) {
  return optimizer.parts_->lineage;
}

}  // namespace shampoo
