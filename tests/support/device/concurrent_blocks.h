// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/kernel.h"

namespace shampoo::test {

/// Runs a kernel with a real thread for every one of its own, two blocks at a time, and barriers in
/// place of sync(): the thread sanitizer then sees what a device's threads could race for, and a
/// sync() that some of them leave out never returns.
void run_blocks_concurrently(std::int64_t blocks, const kernels::cuda::Kernel& kernel);

}  // namespace shampoo::test
