// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/inverse_root.h"
#include "shampoo/optimizer.h"

namespace shampoo::test {

/// Measures what float32 does to the roots of an optimizer's own factors.
class SolverErrorMeter {
 public:
  explicit SolverErrorMeter(Backend& backend) : backend_(backend) {}

  /// If the last step computed roots: the largest error over all blocks of max |R32 - R64| /
  /// max |R64|, summed over the dimensions of the block, in units of 2^-24. Otherwise 0.
  double measure(Optimizer& optimizer);

 private:
  double block_error(Optimizer& optimizer, const Group& group, const Parameter& parameter,
                     int block);
  /// The upper triangle of the root of a factor.
  std::vector<double> root(const SlotView& factor, Type type, const RootInverse& preconditioner,
                           kernels::RootJob job);

  Backend& backend_;
  std::int64_t refreshes_ = 0;
};

}  // namespace shampoo::test
