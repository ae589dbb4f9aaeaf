// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::kernels::cuda {

/// Queues blocks of threads of a program on a cudaStream_t, whose device is current. Returns a
/// cudaError_t. The kernels' sources instantiate it for every kernel.
template <typename Program>
int start(std::int64_t blocks, const Program& program, void* stream);

}  // namespace shampoo::kernels::cuda
