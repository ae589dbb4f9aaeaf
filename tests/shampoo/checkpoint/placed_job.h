// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/buffer.h"
#include "shampoo/checkpoint.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/backends.h"

namespace shampoo::test {

/// A model in the memory of a backend, and its optimizer, with every kind of slot but masters.
class PlacedJob {
 public:
  explicit PlacedJob(Place place)
      : backend_(backend_at(place)),
        ranks_(one_rank(backend_->memory())),
        model_(awkward_shapes()) {
    Recipe recipe = quick_recipe();
    recipe.averaging = Momentum{};
    ParameterGroup group{.rates = {.learning_rate = 1e-2, .momentum = 0.5}, .recipe = recipe};
    for (auto& tensor : model_.tensors) {
      const std::size_t bytes = tensor.value.size() * sizeof(float);
      values_.emplace_back(*backend_, bytes);
      gradients_.emplace_back(*backend_, bytes);
      backend_->upload(values_.back().data(), tensor.value.data(), bytes);
      group.parameters.push_back({.name = tensor.name,
                                  .shape = tensor.shape,
                                  .value = {values_.back().data(), Type::float32},
                                  .gradient = {gradients_.back().data(), Type::float32}});
    }
    backend_->synchronize();
    optimizer = std::make_unique<Optimizer>(*backend_, *ranks_, std::vector{group});
  }

  /// Takes the steps [first, last), each with its own gradients.
  void train(int first, int last) {
    for (int step = first; step < last; ++step) {
      for (; made_ < step; ++made_) model_.new_gradients();
      for (std::size_t t = 0; t < gradients_.size(); ++t)
        backend_->upload(gradients_[t].data(), model_.tensors[t].gradient.data(),
                         gradients_[t].bytes());
      optimizer->step();
      backend_->synchronize();
    }
  }

  /// The values, where they are.
  Extras extras() {
    Extras extras;
    for (std::size_t t = 0; t < values_.size(); ++t)
      extras.tensors.push_back({model_.tensors[t].name,
                                model_.tensors[t].shape,
                                {values_[t].data(), checkpoint::Dtype::f32}});
    return extras;
  }

  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> all;
    for (const auto& tensor : model_.tensors) all.emplace_back(tensor.value.size());
    for (std::size_t t = 0; t < all.size(); ++t)
      backend_->download(all[t].data(), values_[t].data(), values_[t].bytes());
    backend_->synchronize();
    return all;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> ranks_;
  ToyModel<float> model_;
  std::vector<kernels::Buffer> values_, gradients_;
  int made_ = 0;  ///< gradients so far

 public:
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace shampoo::test
