// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "examples/fashion/network/network.h"
#include "shampoo/shampoo.h"

namespace fashion {

enum class Method { shampoo, adamw };

const char* name(Method method);

/// The peak learning rate at which both methods do best here; --sweep repeats the choice.
inline constexpr double best_rate = 3e-3;

/// How Shampoo cuts and refreshes.
struct Preconditioning {
  std::int64_t block;
  std::int64_t refresh;
};

/// The network's parameters in groups that differ in their rates, and in nothing else: weights
/// decay, biases do not, and the last layer has a learning rate of its own.
std::vector<shampoo::ParameterGroup> parameter_groups(Method method,
                                                      const Preconditioning& preconditioning,
                                                      Network<float>& network);

/// Factor of a group's learning rate, in the order of parameter_groups().
double rate_factor(int group);

}  // namespace fashion
