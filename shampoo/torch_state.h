// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "shampoo/user_state.h"

namespace shampoo::libtorch {

/// Throws std::invalid_argument, naming `what`, for a type that safetensors files do not have.
inline checkpoint::Dtype dtype_of(at::ScalarType type, const std::string& what) {
  using checkpoint::Dtype;
  static constexpr std::pair<at::ScalarType, Dtype> dtypes[] = {
      {at::kBool, Dtype::bool8},
      {at::kByte, Dtype::u8},
      {at::kChar, Dtype::i8},
      {at::kFloat8_e5m2, Dtype::f8_e5m2},
      {at::kFloat8_e4m3fn, Dtype::f8_e4m3},
      {at::kFloat8_e8m0fnu, Dtype::f8_e8m0},
      {at::kFloat8_e4m3fnuz, Dtype::f8_e4m3fnuz},
      {at::kFloat8_e5m2fnuz, Dtype::f8_e5m2fnuz},
      {at::kShort, Dtype::i16},
      {at::kUInt16, Dtype::u16},
      {at::kHalf, Dtype::f16},
      {at::kBFloat16, Dtype::bf16},
      {at::kInt, Dtype::i32},
      {at::kUInt32, Dtype::u32},
      {at::kFloat, Dtype::f32},
      {at::kComplexFloat, Dtype::c64},
      {at::kDouble, Dtype::f64},
      {at::kLong, Dtype::i64},
      {at::kUInt64, Dtype::u64}};
  for (const auto& [known, dtype] : dtypes)
    if (known == type) return dtype;
  throw std::invalid_argument(what + ": dtype " + at::toString(type) +
                              " has no place in a checkpoint");
}

/// What a checkpoint has of torch beside the optimizer: modules and random number generators.
/// Modules are borrowed, generators shared.
class TorchState {
 public:
  /// The memory of the backend, in which lent tensors have to be.
  explicit TorchState(at::Device device = at::kCPU) : device_(device) {}

  /// Parameters and buffers of a module, by prefix and name. Buffers that differ between ranks, as
  /// running statistics do, need Sharding::per_rank.
  void add_module(const torch::nn::Module& module, const std::string& prefix = "model/",
                  Sharding buffers = Sharding::shared) {
    const auto add = [&](const auto& tensors, Sharding sharding) {
      for (const auto& entry : tensors)
        if (entry.value().defined())
          tensors_.push_back({prefix + entry.key(), entry.value(), sharding});
    };
    add(module.named_parameters(), Sharding::shared);
    add(module.named_buffers(), buffers);
  }

  /// A generator's state, of each rank its own: the CPU's, or
  /// at::cuda::detail::getDefaultCUDAGenerator() under another name. Names are unique.
  void add_generator(at::Generator generator = at::detail::getDefaultCPUGenerator(),
                     const std::string& name = "generator") {
    generators_.push_back({name, std::move(generator)});
  }

  /// The user state of a save or a load, to be asked for before each: its tensors are the present
  /// ones, copied where they are not row-major; its values are the trainer's to set and to read.
  UserState& lend() {
    const torch::NoGradGuard guard;
    lent_.clear();
    state_.tensors.clear();
    const auto lend = [&](const std::string& name, at::Tensor dense, Sharding sharding) {
      state_.tensors.push_back({.name = name,
                                .shape = dense.sizes().vec(),
                                .tensor = {dense.data_ptr(), dtype_of(dense.scalar_type(), name)},
                                .sharding = sharding});
      lent_.push_back(std::move(dense));
    };
    for (const Entry& entry : tensors_)
      lend(entry.name, entry.tensor.detach().contiguous(), entry.sharding);
    for (const auto& [name, generator] : generators_)
      lend(name, generator.get_state().to(device_), Sharding::per_rank);
    return state_;
  }

  /// Modules and generators <- what was loaded since lend().
  void take_back() {
    const torch::NoGradGuard guard;
    if (lent_.size() != tensors_.size() + generators_.size())
      throw std::logic_error("TorchState: take_back() needs lend() before it");
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (lent_[i].data_ptr() != tensors_[i].tensor.data_ptr())
        tensors_[i].tensor.detach().copy_(lent_[i]);
    for (std::size_t i = 0; i < generators_.size(); ++i)
      generators_[i].second.set_state(lent_[tensors_.size() + i].cpu());
  }

 private:
  struct Entry {
    std::string name;
    at::Tensor tensor;
    Sharding sharding;
  };

  at::Device device_;
  std::vector<Entry> tensors_;
  std::vector<std::pair<std::string, at::Generator>> generators_;
  std::vector<at::Tensor> lent_;  ///< of tensors_, then of generators_
  UserState state_;
};

}  // namespace shampoo::libtorch
