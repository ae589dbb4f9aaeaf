// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product_key.h"

namespace shampoo::kernels::cuda {

/// Matrix products by cuBLASLt. The algorithm is chosen once for a shape, its types, strides and
/// the alignment that they imply, as if for a fixed number of matrices, never splits a sum and
/// needs no workspace: the bits of one matrix do not depend on how many there are.
class CudaProducts {
 public:
  CudaProducts(int device, cudaStream_t stream);
  ~CudaProducts();
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;

  /// Makes the plans of products, which can then be captured.
  void reserve(std::span<const Product> products);
  void multiply(const Product& product);

 private:
  struct Plan;

  Plan& plan_of(const Product& product);
  std::unique_ptr<Plan> make_plan(const ProductKey& key) const;

  int device_;
  cudaStream_t stream_;
  cublasLtHandle_t library_ = nullptr;
  std::map<ProductKey, std::unique_ptr<Plan>> plans_;
};

}  // namespace shampoo::kernels::cuda
