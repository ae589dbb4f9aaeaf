// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/cuda/device/cuda_memory.h"
#include "kernels/cuda/device/device.h"

namespace shampoo::kernels::cuda {

/// Eigendecompositions by cuSOLVER, which is loaded with the first of them, or its reserve(); as
/// many at a time as fit a workspace. Which algorithm the
/// library takes for how many matrices is its secret: bits of one matrix are not promised to be the
/// same in every batch.
class CudaEigen {
 public:
  CudaEigen(int device, cudaStream_t stream, CudaMemory& memory, std::size_t most_bytes);
  ~CudaEigen();
  CudaEigen(const CudaEigen&) = delete;
  CudaEigen& operator=(const CudaEigen&) = delete;

  void reserve(Type type, std::int64_t side, std::int64_t count);
  std::size_t scratch_bytes() const { return workspace_.bytes(); }
  void decompose(const EigenProblem& problem);

 private:
  struct Bytes {
    std::size_t device = 0, host = 0;
  };
  using Shape = std::tuple<Type, std::int64_t, Eigensolver, std::int64_t>;

  void create();
  Bytes needed(const EigenProblem& problem) const;
  Bytes needed_by_jacobi(const EigenProblem& problem) const;
  /// How many of the problem's matrices are done at a time; gets the memory for them.
  std::int64_t part_of(const EigenProblem& problem);
  void run(const EigenProblem& problem);
  void run_jacobi(const EigenProblem& problem);

  int device_;
  cudaStream_t stream_;
  std::size_t most_bytes_;
  cusolverDnHandle_t library_ = nullptr;
  cusolverDnParams_t parameters_ = nullptr;
  syevjInfo_t rotations_ = nullptr;
  CudaScratch workspace_;
  std::vector<std::byte> host_;
  std::map<Shape, std::int64_t> parts_;
};

}  // namespace shampoo::kernels::cuda
