// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/golden_test_case.h"
#include "tests/golden_test_json.h"

namespace shampoo::test {

/// An optimizer of torch.optim.
struct TorchOptimizer {
  std::string name;                ///< its class
  Json keywords = Json::object();  ///< keyword arguments of its constructor
};

/// A parameter group of it: `fields` holds the keywords of the group under "torch", which precede
/// those of the constructor, and maybe a schedule with one value per step, by torch's names of
/// rates or ours. Computes in float64. Throws std::invalid_argument for a class, keyword or
/// scheduled rate that is unknown.
GoldenGroup torch_group_of(const TorchOptimizer& optimizer, Fields fields, int steps);

}  // namespace shampoo::test
