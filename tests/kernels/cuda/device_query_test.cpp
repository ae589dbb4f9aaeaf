// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/device_query.h"

#include <gtest/gtest.h>

#include "support/thrown.h"
#include "tests/support/device/cuda_device.h"

namespace shampoo::kernels::cuda {
namespace {

using DeviceQueryOnDevice = test::WithCudaDevices<>;

TEST(DeviceQuery, NamesToolkitRuntimeAndDriver) {
  const CudaVersions versions = cuda_versions();
  EXPECT_GE(std::stod(versions.toolkit), 13.0);
  EXPECT_GE(std::stod(versions.runtime), 13.0);
  EXPECT_FALSE(versions.driver.empty());
}

TEST(DeviceQuery, RefusesDevicesThatAreNotThere) {
  for (const int device : {-1, device_count()})
    EXPECT_TRUE(test::error_of<std::invalid_argument>([&] {
                  device_facts(device);
                }).starts_with("device: "))
        << device;
}

TEST_F(DeviceQueryOnDevice, DescribesTheFirst) {
  const DeviceFacts facts = device_facts(0);
  EXPECT_FALSE(facts.name.empty());
  EXPECT_GE(facts.major, 8);
  EXPECT_GT(facts.multiprocessors, 0);
  EXPECT_GT(facts.bytes, std::size_t{1} << 30);
  EXPECT_NE(describe_device(0).find(facts.name + ", sm_"), std::string::npos);
}

}  // namespace
}  // namespace shampoo::kernels::cuda
