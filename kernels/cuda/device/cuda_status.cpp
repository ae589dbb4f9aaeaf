// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_status.h"

#include <cuda.h>

#include <string>

#include "kernels/backend.h"

namespace shampoo::kernels::cuda {

namespace {

[[noreturn]] void fail(const char* call, int device, const std::string& text, int code) {
  throw DeviceError(std::string(call) + " on CUDA device " + std::to_string(device) + ": " + text +
                    " (" + std::to_string(code) + ")");
}

/// True also if the driver does not say.
bool has_context(int device) {
  static const auto state_of = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 12000, cudaEnableDefault,
                                     &result);
    return reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(found);
  }();
  unsigned flags = 0;
  int active = 1;
  if (state_of != nullptr) state_of(device, &flags, &active);
  return active != 0;
}

}  // namespace

void check(cudaError_t status, const char* call, int device) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // the next call of the program is not to see it
  fail(call, device, cudaGetErrorString(status), static_cast<int>(status));
}

void check(cublasStatus_t status, const char* call, int device) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(call, device, cublasLtGetStatusString(status), static_cast<int>(status));
}

void check(cusolverStatus_t status, const char* call, int device) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  fail(call, device, "cuSOLVER status", static_cast<int>(status));
}

OnDevice::OnDevice(int device) : device_(device) {
  check(cudaGetDevice(&before_), "cudaGetDevice", device);
  if (before_ != device_) check(cudaSetDevice(device_), "cudaSetDevice", device_);
}

OnDevice::OnDevice(int device, std::nothrow_t) noexcept : device_(device), before_(device) {
  int before = device;
  if (cudaGetDevice(&before) == cudaSuccess &&
      (before == device || cudaSetDevice(device) == cudaSuccess))
    before_ = before;
  else
    cudaGetLastError();  // the next call of the program is not to see it
}

OnDevice::~OnDevice() {
  if (before_ != device_ && has_context(before_)) cudaSetDevice(before_);
}

bool is_capturing(cudaStream_t stream, int device) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing", device);
  return status != cudaStreamCaptureStatusNone;
}

void refuse_capture(cudaStream_t stream, int device, const char* call) {
  if (is_capturing(stream, device))
    fail(call, device, "this cannot be part of a CUDA graph, and the stream is being captured",
         static_cast<int>(cudaErrorStreamCaptureUnsupported));
}

}  // namespace shampoo::kernels::cuda
