// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

/// What saving and loading need of an optimizer beside its interface.
class OptimizerAccess {
 public:
  static Backend& backend(const Optimizer& optimizer);
  static Communicator& communicator(const Optimizer& optimizer);
  static StepProtocol& protocol(const Optimizer& optimizer);
  static Engine& engine(const Optimizer& optimizer);
};

}  // namespace shampoo
