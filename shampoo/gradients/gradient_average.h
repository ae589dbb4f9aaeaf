// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "kernels/buffer.h"
#include "shampoo/group.h"
#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// Implementation of Optimizer::average_gradients() on several ranks.
class GradientAverage {
 public:
  using Zeros = std::function<void*(const Parameter&)>;

  /// Collective. `parameters`: those of `groups`.
  void run(kernels::Backend& backend, Communicator& communicator,
           std::span<const RegisteredParameter> parameters,
           std::span<const std::unique_ptr<Group>> groups, const Zeros& zeros);
  /// Makes gradients absent again that were lent and not replaced; their memory stays until the
  /// next run().
  void withdraw();
  /// The same at the next run(), as a step that throws may be repeated.
  void withdraw_before_next() { withdraws_ = true; }

 private:
  /// A gradient that is absent here, as zeros.
  struct Lent {
    Group* group;
    std::size_t parameter;
    kernels::Buffer memory;

    bool is_in_place() const {
      return group->parameters()[parameter].gradient.data == memory.data();
    }
  };
  void lend(kernels::Backend& backend, Group& group, std::size_t j, const Zeros& zeros);

  std::vector<Lent> lent_;
  bool withdraws_ = false;  ///< the next run() withdraws
};

}  // namespace shampoo
