// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/device/cuda_memory.h"
#include "kernels/cuda/device/device.h"

namespace shampoo::kernels::cuda {

/// Eigendecompositions by cuSOLVER, which is loaded with the first of them, or its reserve(). One
/// matrix at a time: what the library's batches do with a matrix depends on the others (measured,
/// see kernels/README.md).
class CudaEigen {
 public:
  CudaEigen(int device, cudaStream_t stream, CudaMemory& memory);
  ~CudaEigen();
  CudaEigen(const CudaEigen&) = delete;
  CudaEigen& operator=(const CudaEigen&) = delete;

  void reserve(std::int64_t side);
  std::size_t scratch_bytes() const { return workspace_.bytes(); }
  void decompose(const EigenProblem& problem);

 private:
  struct Bytes {
    std::size_t device = 0, host = 0;
  };

  void create();
  /// What a matrix of this side needs, and has from now on.
  Bytes workspace_of(std::int64_t side);

  int device_;
  cudaStream_t stream_;
  cusolverDnHandle_t library_ = nullptr;
  cusolverDnParams_t parameters_ = nullptr;
  CudaScratch workspace_;
  std::vector<std::byte> host_;
};

}  // namespace shampoo::kernels::cuda
