// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/launch/start.h"
#include "kernels/cuda/launch/thread_block.h"

namespace shampoo::kernels::cuda {

/// How many blocks of threads a processor is to hold at once: registers are limited accordingly.
template <typename Program>
constexpr int blocks_per_processor = [] {
  if constexpr (requires { Program::blocks_per_processor; })
    return Program::blocks_per_processor;
  else
    return 1;
}();

template <typename Program>
__global__ void __launch_bounds__(Program::threads, blocks_per_processor<Program>)
    run(const __grid_constant__ Program program) {
  __shared__ typename Program::Shared shared;
  DeviceThreads<Program::threads> block;
  program(block, shared);
}

template <typename Program>
int start(std::int64_t blocks, const Program& program, void* stream) {
  static_assert(sizeof(Program) <= 32764, "what a launch can carry");
  static_assert(sizeof(typename Program::Shared) <= 48 * 1024, "what every device has");
  // The status of this call alone: cudaGetLastError() would also tell of an earlier one.
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Program::threads);
  config.stream = static_cast<cudaStream_t>(stream);
  void* arguments[] = {const_cast<Program*>(&program)};
  const void* const kernel = reinterpret_cast<const void*>(run<Program>);
  return static_cast<int>(cudaLaunchKernelExC(&config, kernel, arguments));
}

}  // namespace shampoo::kernels::cuda
