// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/stepper.h"

namespace shampoo {

/// What saving and loading need of an optimizer beside its interface.
class OptimizerAccess {
 public:
  static Backend& backend(const Optimizer& optimizer);
  static Communicator& communicator(const Optimizer& optimizer);
  static Stepper& stepper(const Optimizer& optimizer);
  static Training& training(const Optimizer& optimizer);
};

}  // namespace shampoo
