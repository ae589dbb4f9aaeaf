// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/protocol/step_protocol.h"
#include "shampoo/state/checkpoint_lineage.h"

namespace shampoo {

class StateImport;

/// Access to the parts of an optimizer that saving and loading need.
class OptimizerAccess {
 public:
  static kernels::Backend& backend(const Optimizer& optimizer);
  static Communicator& communicator(const Optimizer& optimizer);
  static StepProtocol& protocol(const Optimizer& optimizer);
  static Engine& engine(const Optimizer& optimizer);
  static CheckpointLineage& lineage(const Optimizer& optimizer);
  /// Rates and base rates of groups <- those of a state that is loaded.
  static void replace_rates(Optimizer& optimizer, const StateImport& state);
};

}  // namespace shampoo
