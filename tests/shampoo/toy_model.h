// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/shampoo/placed.h"
#include "tests/support/read_rates.h"

namespace shampoo::test {

/// Values and gradients of a few tensors, with random numbers that depend on the seed alone; in
/// the memory of a backend, if one is given.
template <typename Scalar>
class ToyModel {
 public:
  ToyModel(const ToyModel&) = delete;
  ToyModel& operator=(const ToyModel&) = delete;

  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<Scalar> value, gradient;  ///< as they were made; see values()
  };

  explicit ToyModel(const std::vector<std::vector<std::int64_t>>& shapes, unsigned seed = 1,
                    kernels::Backend* backend = nullptr)
      : random_(seed), backend_(backend) {
    for (const auto& shape : shapes) {
      std::size_t count = 1;
      for (const std::int64_t side : shape) count *= static_cast<std::size_t>(side);
      tensors.push_back({"tensor" + std::to_string(tensors.size()), shape,
                         std::vector<Scalar>(count), std::vector<Scalar>(count)});
      fill(tensors.back().value);
    }
    for (Tensor& tensor : tensors) {
      fill(tensor.gradient);
      values_.emplace_back(backend, tensor.value);
      gradients_.emplace_back(backend, tensor.gradient);
    }
  }

  void new_gradients() {
    for (Tensor& tensor : tensors) fill(tensor.gradient);
    send_gradients();
  }
  /// Queues copies of gradients that were assigned to, as a backward pass would; nothing to do in
  /// the memory of the host.
  void send_gradients() {
    for (auto& gradient : gradients_) gradient.send();
  }
  void send_values() {
    for (auto& value : values_) value.send();
  }

  Parameter parameter(std::size_t t) {
    Tensor& tensor = tensors[t];
    return {.name = tensor.name,
            .shape = tensor.shape,
            .value = values_[t].data(),
            .gradient = gradients_[t].data()};
  }

  Parameter parameter(std::string_view name) {
    const auto tensor = std::ranges::find(tensors, name, &Tensor::name);
    if (tensor == tensors.end()) throw std::out_of_range(std::string(name));
    return parameter(static_cast<std::size_t>(tensor - tensors.begin()));
  }

  /// One group with all tensors.
  ParameterGroup group(const Recipe& recipe = {}, const Rates& rates = {}) {
    ParameterGroup all{.rates = read_rates(recipe, rates), .recipe = recipe};
    for (std::size_t t = 0; t < tensors.size(); ++t) all.parameters.push_back(parameter(t));
    return all;
  }

  /// One group for every tensor.
  std::vector<ParameterGroup> groups(const Recipe& recipe, const Rates& rates) {
    std::vector<ParameterGroup> each;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      each.push_back({.rates = read_rates(recipe, rates), .recipe = recipe});
      each.back().parameters.push_back(parameter(t));
    }
    return each;
  }

  /// As trained. Waits.
  std::vector<std::vector<Scalar>> values() const {
    std::vector<std::vector<Scalar>> all;
    for (const auto& value : values_) all.push_back(value.fetch());
    return all;
  }
  /// Of memory where the model lies. Waits.
  std::vector<char> bytes_at(const void* data, std::size_t count) const {
    std::vector<char> bytes(count);
    download(backend_, bytes.data(), data, count);
    return bytes;
  }

  std::vector<Tensor> tensors;

 private:
  void fill(std::vector<Scalar>& numbers) {
    std::normal_distribution<double> normal;
    for (Scalar& x : numbers) x = static_cast<Scalar>(normal(random_));
  }

  std::mt19937_64 random_;
  kernels::Backend* backend_;
  std::deque<Placed<Scalar>> values_, gradients_;
};

/// All bytes of all slots of the blocks that this rank owns.
template <typename Scalar>
std::vector<char> state_of(const Optimizer& optimizer, const ToyModel<Scalar>& model) {
  std::vector<char> bytes;
  const auto add = [&](const SlotView& slot) {
    std::size_t count = 1;
    for (std::size_t k = 0; k < slot.extent.size(); ++k)
      count += static_cast<std::size_t>((slot.extent[k] - 1) * slot.strides[k]);
    const std::vector<char> some = model.bytes_at(slot.data, count * size_of(slot.type));
    bytes.insert(bytes.end(), some.begin(), some.end());
  };
  for (const auto& tensor : model.tensors)
    for (int block = 0; block < optimizer.block_count(tensor.name); ++block) try {
        for (const std::string& name : optimizer.slot_names(tensor.name, block))
          add(optimizer.slot(tensor.name, block, name));
      } catch (const std::invalid_argument&) {  // another rank's
      }
  return bytes;
}

/// Awkward shapes: a scalar, sides of 1, primes, one past the block size of 8, order 3 and 4.
inline std::vector<std::vector<std::int64_t>> awkward_shapes() {
  return {{}, {1}, {1, 7}, {13}, {9, 8}, {8, 9}, {20, 3}, {3, 4, 5}, {2, 3, 2, 4}, {17, 1, 16}};
}

/// Small blocks, roots often, so that a short run does everything.
inline Recipe quick_recipe() {
  Recipe recipe;
  recipe.blocking.size = 8;
  recipe.refresh = {.every = 3, .first = 2};
  return recipe;
}

}  // namespace shampoo::test
