// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cuda/backend.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_backend.h"
#include "tests/support/emulated_device.h"

namespace shampoo::test {

/// Counts uploads, too.
class UploadCounter final : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  void upload(void* to, const void* from_host, std::size_t bytes) override {
    ++uploads;
    CountingBackend::upload(to, from_host, bytes);
  }
  std::int64_t uploads = 0;
};

/// A model in the memory of an emulated device, and its optimizer.
class DeviceJob {
 public:
  using Shapes = std::vector<std::vector<std::int64_t>>;

  explicit DeviceJob(const Recipe& recipe, const Shapes& shapes = awkward_shapes(),
                     const Rates& rates = {}, const OptimizerOptions& options = {},
                     int tensors_per_group = 3)
      : DeviceJob(shapes) {
    begin(*ranks_, recipe, rates, options, tensors_per_group);
  }

  /// Without an optimizer yet.
  explicit DeviceJob(const Shapes& shapes) : model(shapes), ranks_(one_rank(Memory::cuda)) {
    for (auto& tensor : model.tensors) {
      const std::size_t bytes = tensor.value.size() * sizeof(float);
      values_.emplace_back(backend, bytes);
      gradients_.emplace_back(backend, bytes);
      send(tensor.value, values_.back());
    }
    send_gradients();
  }

  void begin(Communicator& communicator, const Recipe& recipe, const Rates& rates,
             const OptimizerOptions& options, int tensors_per_group) {
    std::vector<ParameterGroup> groups;
    for (std::size_t t = 0; t < model.tensors.size(); ++t) {
      if (t % static_cast<std::size_t>(tensors_per_group) == 0)
        groups.push_back({.rates = rates, .recipe = recipe});
      const auto& tensor = model.tensors[t];
      groups.back().parameters.push_back({.name = tensor.name,
                                          .shape = tensor.shape,
                                          .value = {values_[t].data(), Type::float32},
                                          .gradient = {gradients_[t].data(), Type::float32}});
      places_.emplace_back(groups.size() - 1, groups.back().parameters.size() - 1);
    }
    optimizer = std::make_unique<Optimizer>(backend, communicator, groups, options);
  }

  /// Queues copies of the model's gradients, as a backward pass would.
  void send_gradients() {
    for (std::size_t t = 0; t < gradients_.size(); ++t)
      send(model.tensors[t].gradient, gradients_[t]);
  }
  void new_gradients() {
    model.new_gradients();
    send_gradients();
  }
  void set_present(std::size_t t, bool present) {
    optimizer->group(static_cast<int>(places_[t].first))
        .set_gradient(places_[t].second, present ? gradients_[t].data() : nullptr);
  }

  /// Of all values. Waits.
  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> all;
    for (std::size_t t = 0; t < values_.size(); ++t)
      all.emplace_back(model.tensors[t].value.size());
    for (std::size_t t = 0; t < values_.size(); ++t)
      backend.download(all[t].data(), values_[t].data(), values_[t].bytes());
    backend.synchronize();
    return all;
  }
  /// Bytes of the state. Waits.
  std::vector<std::vector<std::byte>> state() {
    std::vector<std::vector<std::byte>> all;
    for (const StateTensor& tensor : optimizer->state_dict({.derived = true}).tensors)
      all.push_back(tensor.bytes);
    return all;
  }

  EmulatedDevice& device = *new EmulatedDevice;  ///< of device_backend
  kernels::cuda::DeviceBackend device_backend{std::unique_ptr<kernels::cuda::Device>(&device)};
  UploadCounter backend{device_backend};
  ToyModel<float> model;

 private:
  void send(const std::vector<float>& numbers, const kernels::Buffer& to) {
    sent_.push_back(numbers);
    device_backend.upload(to.data(), sent_.back().data(), to.bytes());
  }

  std::deque<std::vector<float>> sent_;
  std::vector<kernels::Buffer> values_, gradients_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;
  std::unique_ptr<Communicator> ranks_;

 public:
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace shampoo::test
