// SPDX-License-Identifier: Apache-2.0
// Which device is current when CUDA is called, with two devices that are played.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <new>
#include <set>
#include <string>
#include <vector>

#include "distributor/transports/nccl/nccl_api.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/cuda_memory.h"
#include "kernels/cuda/device/cuda_status.h"

namespace {

struct Played {
  int current = 0;
  std::set<int> contexts = {};
  std::vector<std::string> calls = {};  ///< "record on 1"
  cudaError_t fault = cudaSuccess;      ///< of an earlier kernel, which any call may return
};
Played played;

cudaError_t note(const char* call) {
  played.calls.push_back(std::string(call) + " on " + std::to_string(played.current));
  return cudaSuccess;
}

CUresult state_of(CUdevice device, unsigned*, int* active) {
  *active = static_cast<int>(played.contexts.count(device));
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t cudaGetDevice(int* device) {
  *device = played.current;
  return played.fault;
}

cudaError_t cudaGetLastError() { return played.fault; }
const char* cudaGetErrorString(cudaError_t) { return "played"; }

cudaError_t cudaSetDevice(int device) {
  played.current = device;
  played.contexts.insert(device);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  EXPECT_STREQ(symbol, "cuDevicePrimaryCtxGetState");
  *function = reinterpret_cast<void*>(&state_of);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return note("record"); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return note("wait"); }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned flags) {
  EXPECT_EQ(flags, cudaEventRecordDefault);
  return note("record external");
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                     cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, std::size_t*) {
  return note("capturing");
}
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t) {
  return note("copy");
}

namespace shampoo {
namespace {

using kernels::cuda::OnDevice;

TEST(OnDevice, ReturnsToTheDeviceBefore) {
  played = {.current = 0, .contexts = {0}};
  {
    const OnDevice outer(1);
    EXPECT_EQ(played.current, 1);
    const OnDevice inner(1);
  }
  EXPECT_EQ(played.current, 0);
}

TEST(OnDevice, MakesNoContextOnADeviceThatNobodyUses) {
  played = {};
  { const OnDevice here(1); }
  EXPECT_EQ(played.contexts, std::set<int>{1});
  EXPECT_EQ(played.current, 1);
}

TEST(OnDevice, ThatMustNotThrowDoesNotAfterAFault) {
  played = {.current = 0, .contexts = {0}, .fault = cudaErrorIllegalAddress};
  EXPECT_THROW(OnDevice(1), DeviceError);
  { const OnDevice here(1, std::nothrow); }
  EXPECT_EQ(played.current, 0);
}

TEST(CudaMemory, IsReleasedAfterAFault) {
  played = {.current = 0, .contexts = {0}};
  int released = 0;
  kernels::cuda::CudaMemory memory(
      1, nullptr,
      {.allocate = [](std::size_t) { return &played; }, .release = [&](void*) { ++released; }});
  played.fault = cudaErrorIllegalAddress;
  memory.release(&played);
  EXPECT_EQ(released, 1);
}

TEST(OnDevice, ThatMustNotThrowReturnsToTheDeviceBefore) {
  played = {.current = 0, .contexts = {0}};
  {
    const OnDevice here(1, std::nothrow);
    EXPECT_EQ(played.current, 1);
  }
  EXPECT_EQ(played.current, 0);
}

TEST(NcclCalls, OfTheDefaultStreamAreOnTheDeviceOfTheCommunicator) {
  played = {.current = 0, .contexts = {0}};
  const auto api = make_nccl_api(1);

  api->record(nullptr, nullptr);
  api->wait(nullptr, nullptr);
  EXPECT_FALSE(api->is_capturing(nullptr));
  api->copy(nullptr, nullptr, 0, nullptr);
  api->record_external(nullptr, nullptr);

  EXPECT_EQ(played.calls,
            (std::vector<std::string>{"record on 1", "wait on 1", "capturing on 1", "copy on 1",
                                      "capturing on 1", "record external on 1"}));
  EXPECT_EQ(played.current, 0);
}

}  // namespace
}  // namespace shampoo
