// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/backend.h"

namespace shampoo::kernels::cuda {

/// Device memory in the order of a stream, from a pool that keeps what is released, or from the
/// caller's allocator. The device must be current in all calls but release().
class CudaMemory {
 public:
  CudaMemory(int device, cudaStream_t stream, const CudaAllocator& allocator);
  ~CudaMemory();
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  void* allocate(std::size_t bytes);  ///< throws std::bad_alloc
  void release(void* memory) noexcept;
  /// Returns what the pool holds and no work uses any more to the system.
  void trim();
  /// Bytes that the pool holds, in use or not; 0 with an allocator of the caller.
  std::size_t pool_bytes() const;

 private:
  int device_;
  cudaStream_t stream_;
  CudaAllocator allocator_;
  cudaMemPool_t pool_ = nullptr;
};

/// Memory of one purpose, which grows when asked to.
class CudaScratch {
 public:
  explicit CudaScratch(CudaMemory& memory) : memory_(memory) {}
  ~CudaScratch() { memory_.release(data_); }
  CudaScratch(const CudaScratch&) = delete;
  CudaScratch& operator=(const CudaScratch&) = delete;

  void reserve(std::size_t bytes);
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  CudaMemory& memory_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace shampoo::kernels::cuda
