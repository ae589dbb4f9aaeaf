// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/backend.h"

namespace shampoo {

/// Whether this build has CUDA.
bool has_cuda();

/// Where a CUDA backend gets its device memory. Both functions are called on the thread that uses
/// the backend, with its device current; work that is queued on the stream may use memory until it
/// is released, in the order of the stream.
struct CudaAllocator {
  /// At least 256-byte aligned, or null where there is no more.
  std::function<void*(std::size_t bytes)> allocate;
  std::function<void(void* memory)> release;
};

struct CudaOptions {
  /// Number of the device; -1: the one that is current on this thread.
  int device = -1;
  /// cudaStream_t of that device, borrowed, on which everything runs; null: CUDA's default stream.
  void* stream = nullptr;
  /// Unless set, memory comes from a pool of the backend's own.
  CudaAllocator allocator = {};
  /// Most memory that eigendecompositions may use beside the matrices, in MiB, >= 1. They are done
  /// in as many parts as it takes; one matrix at a time may use more.
  std::int64_t solver_workspace_mebibytes = 1024;
};

/// One GPU, and one stream of it. All calls are queued behind the caller's work on the stream, and
/// return at once.
///
/// Throws std::invalid_argument for an option out of range and where this build has no CUDA, naming
/// the CMake option, and DeviceError where the device cannot be used.
std::unique_ptr<Backend> cuda_backend(const CudaOptions& options);

/// With a cudaStream_t, and the device that is current on this thread.
std::unique_ptr<Backend> cuda_backend(void* stream = nullptr);

}  // namespace shampoo
