// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_backend.h"

#include <cstring>
#include <utility>
#include <vector>

namespace shampoo::kernels::cuda {

void add_square_products(std::int64_t side, Type type, std::vector<Product>& products) {
  // As aligned as a solver's matrices.
  const SquareMatrixBatch a{.type = type, .side = side, .count = 1};
  for (const auto& [transposes_a, transposes_b] :
       {std::pair(false, false), std::pair(false, true), std::pair(true, false)})
    products.push_back(square_product(a, transposes_a, a, transposes_b, a));
}

DeviceBackend::DeviceBackend(std::unique_ptr<Device> device)
    : device_(std::move(device)), workspace_(*device_) {}
DeviceBackend::~DeviceBackend() = default;

void* DeviceBackend::allocate(std::size_t bytes) {
  void* const memory = device_->allocate(bytes);
  if (bytes != 0) device_->zero(memory, bytes);
  return memory;
}

void DeviceBackend::release(void* memory) noexcept { device_->release(memory); }

void* DeviceBackend::allocate_host(std::size_t bytes) {
  void* const memory = device_->allocate_host(bytes);
  std::memset(memory, 0, bytes);
  host_blocks_[memory] = bytes;
  return memory;
}

void DeviceBackend::release_host(void* memory) noexcept {
  host_blocks_.erase(memory);
  device_->release_host(memory);
}

MemoryUse DeviceBackend::memory_use() const {
  MemoryUse use = device_->memory_use();
  use.scratch += static_cast<std::int64_t>(workspace_.bytes());
  for (const auto& [memory, bytes] : host_blocks_) use.host += static_cast<std::int64_t>(bytes);
  return use;
}

void DeviceBackend::upload(void* to, const void* from_host, std::size_t bytes) {
  if (bytes != 0) device_->upload(to, from_host, bytes);
}

void DeviceBackend::download(void* to_host, const void* from, std::size_t bytes) {
  if (bytes != 0) device_->download(to_host, from, bytes);
}

void DeviceBackend::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) device_->copy(to, from, bytes);
}

void DeviceBackend::reserve(std::span<const Stack> stacks, Type arithmetic,
                            const SolverCalls& calls) {
  workspace_.reserve(stacks, arithmetic, calls);
  std::vector<Product> products;
  add_mode_products(stacks, arithmetic, products);
  if (calls.decompositions)
    for (const auto& [side, count] : calls.matrices)
      for (const Type type : {arithmetic, Type::float64}) add_square_products(side, type, products);
  device_->reserve_products(products);
  if (!calls.decompositions) return;
  device_->reserve_eigen(calls.largest_side);
  for (const auto& [side, count] : calls.matrices) device_->reserve_eigen(side);
}

}  // namespace shampoo::kernels::cuda
