// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "kernels/cuda/device/cuda_memory.h"
#include "kernels/cuda/device/device.h"

namespace shampoo::kernels::cuda {

/// Matrix products by cuBLASLt. The algorithm is chosen once for a shape, its types, strides and
/// the alignment that they imply, as if for a fixed number of matrices, and never splits a sum: the
/// bits of one matrix do not depend on how many there are.
class CudaProducts {
 public:
  CudaProducts(int device, cudaStream_t stream, CudaMemory& memory);
  ~CudaProducts();
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;

  /// Gets the library's workspace, so that products can be captured.
  void reserve();
  std::size_t scratch_bytes() const { return workspace_.bytes(); }
  void multiply(const Product& product);

 private:
  /// Properties by which an algorithm is chosen.
  struct Operand {
    Type type = Type::float32;
    bool transposed = false;
    std::int64_t row = 0, stride = 0;
    std::uint32_t alignment = 1;  ///< in bytes
    auto operator<=>(const Operand&) const = default;
  };
  struct Key {
    std::int64_t rows = 0, columns = 0, depth = 0;
    Operand a, b, c;
    auto operator<=>(const Key&) const = default;
  };
  struct Plan;

  static Operand operand_of(const Matrices& matrices);
  Plan& plan_of(const Product& product);
  std::unique_ptr<Plan> make_plan(const Key& key) const;

  int device_;
  cudaStream_t stream_;
  cublasLtHandle_t library_ = nullptr;
  CudaScratch workspace_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace shampoo::kernels::cuda
