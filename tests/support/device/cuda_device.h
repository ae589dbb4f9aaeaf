// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/cuda/device/device_query.h"

namespace shampoo::test {

/// Tests that need `least` CUDA devices: skipped without them, or failed where SHAMPOO_REQUIRE_CUDA
/// is 1 and there is none at all.
template <int least = 1>
class WithCudaDevices : public testing::Test {
 protected:
  void SetUp() override {
    const int devices = kernels::cuda::device_count();
    if (devices >= least) return;
    const std::string text =
        "needs " + std::to_string(least) + " CUDA device(s), there are " + std::to_string(devices);
    const char* const required = std::getenv("SHAMPOO_REQUIRE_CUDA");
    if (devices == 0 && required && std::string(required) == "1") FAIL() << text;
    GTEST_SKIP() << text;
  }
};

}  // namespace shampoo::test
