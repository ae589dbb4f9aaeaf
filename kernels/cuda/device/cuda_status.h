// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <new>

/// Faults of CUDA and its libraries, as exceptions.
namespace shampoo::kernels::cuda {

/// Throw DeviceError with the call, the device, the code and what it means, unless all is well.
void check(cudaError_t status, const char* call, int device);
void check(cublasStatus_t status, const char* call, int device);
void check(cusolverStatus_t status, const char* call, int device);

/// Makes a device current on this thread, while it lives. The one before becomes current again if
/// this process has a context on it: otherwise that would create one, half a gigabyte of memory.
class OnDevice {
 public:
  /// Throws DeviceError.
  explicit OnDevice(int device);
  /// For releasing. Leaves the device as it is if it cannot be made current, as after a fault of a
  /// kernel, which any call may return.
  OnDevice(int device, std::nothrow_t) noexcept;
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int device_, before_ = 0;
};

/// True if work queued on the stream is captured into a graph instead of being run.
bool is_capturing(cudaStream_t stream, int device);
/// Throws DeviceError if so: the call would wait, which would spoil the caller's graph.
void refuse_capture(cudaStream_t stream, int device, const char* call);

}  // namespace shampoo::kernels::cuda
