// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/device_backend.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_backend.h"
#ifdef SHAMPOO_TEST_ON_CUDA
#include "tests/support/device/capturing_cuda_device.h"
#else
#include "tests/support/device/emulated_device.h"
#endif

namespace shampoo::test {

#ifdef SHAMPOO_TEST_ON_CUDA
using JobDevice = CapturingCudaDevice;
#else
using JobDevice = EmulatedDevice;
#endif

/// Counts uploads and products of Minimax, too.
class WorkCounter final : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  void upload(void* to, const void* from_host, std::size_t bytes) override {
    ++uploads;
    CountingBackend::upload(to, from_host, bytes);
  }
  void multiply_symmetric(std::span<const kernels::SquareMatrixBatch> a,
                          std::span<const kernels::SquareMatrixBatch> b, kernels::Form operands,
                          const kernels::Weights& weights,
                          std::span<const kernels::SquareMatrixBatch> d,
                          std::span<const kernels::SquareMatrixBatch> c,
                          kernels::Form form) override {
    for (const kernels::SquareMatrixBatch& batch : a) products += batch.count;
    CountingBackend::multiply_symmetric(a, b, operands, weights, d, c, form);
  }
  std::int64_t uploads = 0, products = 0;  ///< products: matrices
};

/// A model in the memory of a device, and its optimizer.
class DeviceJob {
 public:
  using Shapes = std::vector<std::vector<std::int64_t>>;

  explicit DeviceJob(const Recipe& recipe, const Shapes& shapes = awkward_shapes(),
                     const Rates& rates = {}, const OptimizerOptions& options = {},
                     int tensors_per_group = 3)
      : DeviceJob(shapes) {
    begin(*ranks_, recipe, rates, options, tensors_per_group);
  }

  /// Does not make the optimizer.
  explicit DeviceJob(const Shapes& shapes)
      : model(shapes, 1, &device_backend), ranks_(single_rank_communicator(MemoryKind::cuda)) {}

  void begin(Communicator& communicator, const Recipe& recipe, const Rates& rates,
             const OptimizerOptions& options, int tensors_per_group) {
    std::vector<ParameterGroup> groups;
    for (std::size_t t = 0; t < model.tensors.size(); ++t) {
      if (t % static_cast<std::size_t>(tensors_per_group) == 0)
        groups.push_back({.rates = rates, .recipe = recipe});
      groups.back().parameters.push_back(model.parameter(t));
      places_.emplace_back(groups.size() - 1, groups.back().parameters.size() - 1);
    }
    optimizer = std::make_unique<Optimizer>(backend, communicator, groups, options);
  }

  void set_present(std::size_t t, bool present) {
    optimizer->group(static_cast<int>(places_[t].first))
        .set_gradient(places_[t].second, present ? model.parameter(t).gradient.data : nullptr);
  }

  /// Copy of all values. Waits.
  std::vector<std::vector<float>> values() { return model.values(); }
  /// Copy of the state's bytes. Waits.
  std::vector<std::vector<std::byte>> state() {
    std::vector<std::vector<std::byte>> all;
    for (const StateTensor& tensor : optimizer->state_dict({.derived = true}).tensors)
      all.push_back(tensor.bytes);
    return all;
  }

  JobDevice& device = *new JobDevice;  ///< of device_backend
  kernels::cuda::DeviceBackend device_backend{std::unique_ptr<kernels::cuda::Device>(&device)};
  WorkCounter backend{device_backend};
  ToyModel<float> model;

 private:
  std::vector<std::pair<std::size_t, std::size_t>> places_;
  std::unique_ptr<Communicator> ranks_;

 public:
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace shampoo::test
