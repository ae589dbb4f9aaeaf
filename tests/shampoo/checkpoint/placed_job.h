// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {

/// A model in the memory of a backend, and its optimizer, with every kind of slot but masters.
class PlacedJob {
 public:
  explicit PlacedJob(Place place)
      : backend_(backend_at(place)),
        ranks_(single_rank_communicator(backend_->memory_kind())),
        model_(awkward_shapes(), 1, backend_.get()) {
    Recipe recipe = quick_recipe();
    recipe.averaging = Momentum{};
    optimizer = std::make_unique<Optimizer>(
        *backend_, *ranks_,
        std::vector{model_.group(recipe, {.learning_rate = 1e-2, .momentum = 0.5})});
  }

  /// Takes the steps [first, last), each with its own gradients.
  void train(int first, int last) {
    for (int step = first; step < last; ++step) {
      for (; made_ < step; ++made_) model_.new_gradients();
      optimizer->step();
    }
  }

  /// The values, where they are.
  UserState user() {
    UserState user;
    for (std::size_t t = 0; t < model_.tensors.size(); ++t)
      user.tensors.push_back({model_.tensors[t].name,
                              model_.tensors[t].shape,
                              {model_.parameter(t).value.data, checkpoint::Dtype::f32}});
    return user;
  }

  std::vector<std::vector<float>> values() const { return model_.values(); }

 private:
  std::shared_ptr<kernels::Backend> backend_;
  std::unique_ptr<Communicator> ranks_;
  ToyModel<float> model_;
  int made_ = 0;  ///< gradients so far

 public:
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace shampoo::test
