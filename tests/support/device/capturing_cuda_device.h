// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/cuda/device/cuda_device.h"

namespace shampoo::test {

/// A new stream of the first GPU.
class CudaStream {
 protected:
  CudaStream();
  ~CudaStream() { cudaStreamDestroy(made_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t made_ = nullptr;
};

/// Captures as an EmulatedDevice does, into graphs of CUDA.
class CapturingCudaDevice final : private CudaStream, public kernels::cuda::CudaDevice {
 public:
  using Graph = std::shared_ptr<CUgraphExec_st>;

  CapturingCudaDevice() : CudaDevice({.device = 0, .stream = made_}) {}

  /// No thread may make a call meanwhile that CUDA finds unsafe in a capture.
  void begin_capture();
  Graph end_capture();
  void replay(const Graph& graph);
};

}  // namespace shampoo::test
