// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/staging_backend.h"

#include <cstring>
#include <new>
#include <utility>

namespace shampoo::test {

namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

StagingBackend::StagingBackend(std::shared_ptr<kernels::Backend> backend)
    : backend_(std::move(backend)) {}
StagingBackend::~StagingBackend() = default;

void* StagingBackend::allocate(std::size_t bytes) {
  void* const memory = ::operator new(bytes, alignment);
  std::memset(memory, 0, bytes);
  return memory;
}

void StagingBackend::release(void* memory) noexcept { ::operator delete(memory, alignment); }

void StagingBackend::upload(void* to, const void* from_host, std::size_t bytes) {
  copy(to, from_host, bytes);
}
void StagingBackend::download(void* to_host, const void* from, std::size_t bytes) {
  copy(to_host, from, bytes);
}
void StagingBackend::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void StagingBackend::reserve(std::span<const kernels::Stack> stacks, Type arithmetic,
                             const kernels::SolverCalls& calls) {
  backend_->reserve(stacks, arithmetic, calls);
}

void StagingBackend::reserve_orthogonalization(std::span<const kernels::Stack> stacks,
                                               std::span<const kernels::PolarPlan> plans,
                                               Type arithmetic) {
  backend_->reserve_orthogonalization(stacks, plans, arithmetic);
}

}  // namespace shampoo::test
