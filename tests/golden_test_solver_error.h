// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/solvers/inverse_root.h"
#include "shampoo/optimizer.h"

namespace shampoo::test {

/// Measures what float32 does to the roots of an optimizer's own factors.
class SolverErrorMeter {
 public:
  explicit SolverErrorMeter(kernels::Backend& backend) : backend_(backend) {}

  /// If the last step computed roots: the largest error over all blocks, summed over the dimensions
  /// of the block, in units of 2^-24. The error of a root R32 is that of R32 G relative to R64 G,
  /// for gradients G with the statistics that the factor holds. Otherwise 0.
  double measure(Optimizer& optimizer);

 private:
  double block_error(Optimizer& optimizer, const Group& group, const Parameter& parameter,
                     int block);
  /// The root of a full symmetric factor.
  std::vector<double> root(const std::vector<double>& factor, Type type,
                           const RootInverse& preconditioner, kernels::RootJob job);

  kernels::Backend& backend_;
  std::int64_t refreshes_ = 0;
};

}  // namespace shampoo::test
