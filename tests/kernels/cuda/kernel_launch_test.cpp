// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kernels/buffer.h"
#include "kernels/cuda/device/cuda_device.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/device/cuda_device.h"

namespace shampoo::test {
namespace {

using KernelLaunchOnDevice = WithCudaDevices<>;

TEST_F(KernelLaunchOnDevice, IsNotBlamedForAnEarlierErrorOfTheCaller) {
  const auto backend = with_kernels(cuda_backend(CudaOptions{.device = 0}));
  const auto zeros = [&](std::size_t bytes) { return kernels::Buffer(*backend, bytes); };
  const kernels::Buffer permit = zeros(sizeof(kernels::StepPermit)),
                        records = zeros(sizeof(kernels::StepRecords));
  ASSERT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);

  backend->admit(static_cast<const kernels::StepPermit*>(permit.data()), 0, {},
                 static_cast<kernels::StepRecords*>(records.data()));
  backend->synchronize();

  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice) << "it is still the caller's to read";
  kernels::StepRecords seen;
  backend->download(&seen, records.data(), sizeof(seen));
  backend->synchronize();
  EXPECT_EQ(seen.runs.count, 1);
}

TEST_F(KernelLaunchOnDevice, OfMoreBlocksThanADeviceTakesIsAnError) {
  kernels::cuda::CudaDevice device({.device = 0});
  EXPECT_THROW(device.launch((std::int64_t{1} << 32) + 1, kernels::cuda::ReduceScan{}),
               DeviceError);
}

}  // namespace
}  // namespace shampoo::test
