// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>

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

/// What a kernel has without asking, and what it may ask for on every device since sm_80.
inline constexpr std::size_t usual_shared_bytes = 48 * 1024, most_shared_bytes = 96 * 1024;

template <typename Program>
constexpr bool asks_for_memory = sizeof(typename Program::Shared) > usual_shared_bytes;

template <typename Program>
__global__ void __launch_bounds__(Program::threads, blocks_per_processor<Program>)
    run(const __grid_constant__ Program program) {
  DeviceThreads<Program::threads> block;
  if constexpr (asks_for_memory<Program>) {
    extern __shared__ __align__(1024) char memory[];
    program(block, *reinterpret_cast<typename Program::Shared*>(memory));
  } else {
    __shared__ typename Program::Shared shared;
    program(block, shared);
  }
}

template <typename Program>
int start(std::int64_t blocks, const Program& program, void* stream) {
  static_assert(sizeof(Program) <= 32764, "what a launch can carry");
  constexpr std::size_t shared_bytes = sizeof(typename Program::Shared);
  static_assert(shared_bytes <= most_shared_bytes, "what every device has");
  if (blocks > std::numeric_limits<std::int32_t>::max()) return cudaErrorInvalidConfiguration;
  // The status of this call alone: cudaGetLastError() would also tell of an earlier one.
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Program::threads);
  config.stream = static_cast<cudaStream_t>(stream);
  void* arguments[] = {const_cast<Program*>(&program)};
  const void* const kernel = reinterpret_cast<const void*>(run<Program>);
  if constexpr (asks_for_memory<Program>) {
    config.dynamicSmemBytes = shared_bytes;
    // Each device of the process wants to be asked; it takes less than a microsecond.
    const cudaError_t status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (status != cudaSuccess) return static_cast<int>(status);
  }
  return static_cast<int>(cudaLaunchKernelExC(&config, kernel, arguments));
}

}  // namespace shampoo::kernels::cuda
