// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "distributor/communicator.h"
#include "kernels/buffer.h"
#include "shampoo/group.h"

namespace shampoo {

/// Implementation of Optimizer::average_gradients() on several ranks.
class GradientAverage {
 public:
  using Zeros = std::function<void*(const Parameter&)>;

  /// Collective.
  void run(kernels::Backend& backend, Communicator& communicator,
           std::span<const std::unique_ptr<Group>> groups, const Zeros& zeros);

 private:
  /// A gradient that is absent here, as zeros.
  struct Lent {
    Group* group;
    std::size_t parameter;
    kernels::Buffer memory;
  };
  void lend(kernels::Backend& backend, Group& group, std::size_t j, const Zeros& zeros);
  /// Those that the caller has not replaced are absent again.
  void take_back();

  std::vector<Lent> lent_;
};

}  // namespace shampoo
