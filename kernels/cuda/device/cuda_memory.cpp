// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_memory.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "kernels/cuda/device/cuda_status.h"

namespace shampoo::kernels::cuda {

CudaMemory::CudaMemory(int device, cudaStream_t stream, const CudaAllocator& allocator)
    : device_(device), stream_(stream), allocator_(allocator) {
  if (allocator_.allocate) return;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = device};
  check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate", device);
  // What is released stays here: the next allocation is not to ask the driver.
  std::uint64_t keep = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute", device);
}

CudaMemory::~CudaMemory() {
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

void* CudaMemory::allocate(std::size_t bytes) {
  refuse_capture(stream_, device_, "allocate");
  void* memory = nullptr;
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  if (allocator_.allocate) {
    memory = allocator_.allocate(size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  const cudaError_t status = cudaMallocFromPoolAsync(&memory, size, pool_, stream_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
  check(status, "cudaMallocFromPoolAsync", device_);
  return memory;
}

void CudaMemory::release(void* memory) noexcept {
  if (memory == nullptr) return;
  const OnDevice current(device_, std::nothrow);
  if (allocator_.release)
    allocator_.release(memory);
  else
    cudaFreeAsync(memory, stream_);
}

void CudaMemory::trim() {
  if (pool_ != nullptr) check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo", device_);
}

std::size_t CudaMemory::pool_bytes() const {
  if (pool_ == nullptr) return 0;
  std::uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes),
        "cudaMemPoolGetAttribute", device_);
  return bytes;
}

void CudaScratch::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  memory_.release(std::exchange(data_, nullptr));
  bytes_ = 0;
  data_ = memory_.allocate(bytes);
  bytes_ = bytes;
}

}  // namespace shampoo::kernels::cuda
