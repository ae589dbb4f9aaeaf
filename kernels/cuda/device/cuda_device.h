// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda/device/cuda_eigen.h"
#include "kernels/cuda/device/cuda_memory.h"
#include "kernels/cuda/device/cuda_products.h"
#include "kernels/cuda/device/device.h"

namespace shampoo::kernels::cuda {

/// One stream of one GPU.
class CudaDevice : public Device {
 public:
  /// The device that the options name must be current.
  explicit CudaDevice(const CudaOptions& options);
  ~CudaDevice() override;

  std::string description() const override { return description_; }
  std::string arithmetic() const override { return arithmetic_; }
  int index() const override { return device_; }
  void* stream() const override { return stream_; }

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void trim() override;
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* memory) noexcept override;

  void zero(void* memory, std::size_t bytes) override;
  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;

  MemoryUse memory_use() const override;
  std::unique_ptr<Mark> make_mark() override;
  std::unique_ptr<Timeline> make_timeline(std::size_t points) override;
  bool is_idle() override;  ///< false while the stream is captured
  bool is_capturing() const override;
  void begin_range(const char* name) override;
  void end_range() override;
  void synchronize() override;

  void launch(std::int64_t blocks, const Kernel& kernel) override;
  void multiply(const Product& product) override;
  void reserve_products(std::span<const Product> products) override;
  void reserve_eigen(std::int64_t side) override;
  void decompose(const EigenProblem& problem) override;

 private:
  int device_;
  cudaStream_t stream_;
  std::string description_, arithmetic_;
  CudaMemory memory_;
  CudaProducts products_;
  CudaEigen eigen_;
};

}  // namespace shampoo::kernels::cuda
