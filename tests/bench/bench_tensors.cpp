// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench_tensors.h"

#include <algorithm>
#include <bit>
#include <variant>

#include "grouping/blocks.h"

namespace shampoo::test {

namespace {

std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// Tensors begin at multiples of this, as allocators of trainers place them.
constexpr std::int64_t alignment = 128;

}  // namespace

float Noise::next(float deviation) {
  // The sum of four uniform numbers; splitmix64 gives all four at once.
  std::uint64_t bits = state_ += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  bits ^= bits >> 31;
  const auto sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  // Mean 2 * 65535, deviation 65536 / sqrt(3).
  return deviation * (static_cast<float>(sum) - 131070.0f) * (1.7320508f / 65536.0f);
}

void Noise::fill(void* numbers, Type type, std::int64_t count, float deviation) {
  if (type == Type::bfloat16)
    for (std::int64_t i = 0; i < count; ++i)
      static_cast<std::uint16_t*>(numbers)[i] = to_bfloat16(next(deviation));
  else
    for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(numbers)[i] = next(deviation);
}

BenchTensors::BenchTensors(kernels::Backend& backend, const Model& model, Type type)
    : backend_(backend), type_(type), begins_{0} {
  for (const Model::Tensor& tensor : model.tensors) {
    const std::int64_t end = begins_.back() + grouping::numel(tensor.shape);
    begins_.push_back((end + alignment - 1) / alignment * alignment);
  }
  const std::size_t bytes = static_cast<std::size_t>(begins_.back()) * size_of(type);
  values_ = kernels::Buffer(backend, bytes);
  gradients_ = kernels::Buffer(backend, bytes);

  std::vector<char> host(bytes);
  noise_.fill(host.data(), type, begins_.back(), 0.02f);
  backend.upload(values_.data(), host.data(), bytes);
  backend.synchronize();
  if (backend.memory_kind() == MemoryKind::host) return;
  for (kernels::Buffer& set : sets_) {
    set = kernels::Buffer(backend, bytes);
    noise_.fill(host.data(), type, begins_.back(), 1.0f);
    backend.upload(set.data(), host.data(), bytes);
    backend.synchronize();
  }
}

void* BenchTensors::at(const kernels::Buffer& buffer, std::size_t tensor) const {
  return static_cast<char*>(buffer.data()) +
         begins_[tensor] * static_cast<std::int64_t>(size_of(type_));
}

std::vector<ParameterGroup> BenchTensors::groups(const Model& model, int groups,
                                                 const NamedRecipe& recipe) const {
  std::vector<ParameterGroup> all(static_cast<std::size_t>(groups));
  for (int g = 0; g < groups; ++g) {
    all[g].rates = recipe.rates;
    all[g].rates.learning_rate = 1e-3 * (1 + static_cast<double>(g) / groups);
    all[g].rates.weight_decay = 0.1;
    all[g].recipe = recipe.recipe;
  }
  const bool matrices_only = std::holds_alternative<Spectral>(recipe.recipe.preconditioner);
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const grouping::Shape& shape = model.tensors[i].shape;
    if (matrices_only && std::ranges::count_if(shape, [](auto side) { return side > 1; }) < 2)
      continue;
    all[i % all.size()].parameters.push_back({.name = model.tensors[i].name,
                                              .shape = shape,
                                              .value = {at(values_, i), type_},
                                              .gradient = {at(gradients_, i), type_}});
  }
  std::erase_if(all, [](const ParameterGroup& group) { return group.parameters.empty(); });
  return all;
}

void BenchTensors::draw_gradients() {
  if (backend_.memory_kind() == MemoryKind::host) {
    noise_.fill(gradients_.data(), type_, begins_.back(), 1.0f);
    return;
  }
  backend_.copy(gradients_.data(), sets_[turn_].data(), gradients_.bytes());
  backend_.synchronize();
  turn_ = 1 - turn_;
}

}  // namespace shampoo::test
