// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tests/shampoo/toy_model.h"
#include "tests/support/device/ranks_at.h"

namespace shampoo::test {

/// In float64: the direction is the gradient.
inline Recipe plain_descent() {
  return {.preconditioner = Sgd{},
          .grafting = std::nullopt,
          .arithmetic = Arithmetic::float64,
          .filter = false};
}

inline Recipe projected(Recipe recipe, const Projection& projection) {
  recipe.projection = projection;
  recipe.communication.values = true;
  return recipe;
}

template <typename Scalar>
double norm_of(const std::vector<Scalar>& x) {
  double sum = 0;
  for (const Scalar a : x) sum += static_cast<double>(a) * static_cast<double>(a);
  return std::sqrt(sum);
}

/// Values after so many steps of one group for every tensor, on one rank or several, whose values
/// are equal.
template <typename Scalar>
struct TransformedRun {
  Recipe recipe;
  Rates rates = {.learning_rate = 0.5, .weight_decay = 0.25};
  OptimizerOptions options = {};
  std::vector<std::vector<std::int64_t>> shapes = awkward_shapes();
  int steps = 1;

  using Values = std::vector<std::vector<Scalar>>;

  Values at(Place place, int ranks) const {
    Values first;
    run_ranks_at(place, ranks, [&](Communicator& communicator, kernels::Backend& backend) {
      const Values own = on(communicator, backend);
      if (communicator.rank() == 0) first = own;
    });
    return first;
  }

  Values on(Communicator& communicator, kernels::Backend& backend) const {
    ToyModel<Scalar> model(shapes, 1, &backend);
    OptimizerOptions compared = options;
    compared.compare_values_every = 1;
    Optimizer optimizer(backend, communicator, model.groups(recipe, rates), compared);
    for (int step = 0; step < steps; ++step) {
      if (step > 0) model.new_gradients();
      (void)optimizer.step().applied();
    }
    return model.values();
  }
};

}  // namespace shampoo::test
