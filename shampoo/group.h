// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "shampoo/parameter.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// Parameters with one set of rates and one recipe.
struct ParameterGroup {
  std::vector<Parameter> parameters = {};  ///< at least one
  Rates rates = {};
  Recipe recipe = {};
};

class ValueMemory;

/// A group while it is trained. `rates` may be assigned at any time between steps.
class Group {
 public:
  Rates rates;

  const Recipe& recipe() const { return recipe_; }
  std::span<const Parameter> parameters() const { return parameters_; }

  /// Where the gradient of the group's j-th parameter lies from the next step on; null: absent.
  /// Type and strides stay. Throws std::out_of_range for j, and std::invalid_argument where the
  /// memory is not aligned to its elements or overlaps a value.
  void set_gradient(std::size_t j, void* data);

 private:
  friend class Optimizer;
  Group(ParameterGroup group, int index, const ValueMemory& values);

  Recipe recipe_;
  std::vector<Parameter> parameters_;
  int index_;
  const ValueMemory& values_;
};

}  // namespace shampoo
