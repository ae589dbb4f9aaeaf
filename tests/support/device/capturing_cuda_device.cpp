// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/capturing_cuda_device.h"

#include "kernels/cuda/device/cuda_status.h"

namespace shampoo::test {

namespace {

void check(cudaError_t status, const char* call) { kernels::cuda::check(status, call, 0); }

}  // namespace

CudaStream::CudaStream() {
  check(cudaSetDevice(0), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&made_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

void CapturingCudaDevice::begin_capture() {
  check(cudaStreamBeginCapture(made_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
}

CapturingCudaDevice::Graph CapturingCudaDevice::end_capture() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t program = nullptr;
  check(cudaStreamEndCapture(made_, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&program, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return {program, cudaGraphExecDestroy};
}

void CapturingCudaDevice::replay(const Graph& graph) {
  check(cudaGraphLaunch(graph.get(), made_), "cudaGraphLaunch");
}

}  // namespace shampoo::test
