// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "shampoo/parameter.h"

namespace shampoo {

/// A tensor of the trainer: a parameter's value, an average of it, ... The same on all ranks.
struct ExtraTensor {
  std::string name = {};                 ///< unique among the extras, UTF-8, not empty
  std::vector<std::int64_t> shape = {};  ///< empty: a scalar
  Tensor tensor = {};                    ///< row-major, in the backend's memory; borrowed
};

using ExtraValue = std::variant<std::int64_t, double, std::string>;

/// What a trainer keeps beside the optimizer's state, and finds again when it goes on.
struct Extras {
  std::vector<ExtraTensor> tensors = {};
  std::map<std::string, ExtraValue> values = {};  ///< names and texts are UTF-8
};

}  // namespace shampoo
