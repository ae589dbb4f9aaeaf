// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/rules/host_device.h"

/// Kernels are written as programs of a block of threads, so that the same source runs on a device
/// and, one thread after the other, on the host:
///
///     struct Kernel {
///       static constexpr int threads = 256;
///       static constexpr int blocks_per_processor = 3;  // optional: registers leave room for them
///       struct Shared { ... };                     // memory that the threads of a block share
///       ...                                        // parameters
///       template <typename Threads>
///       SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
///     };
///
/// Code that differs between threads stands inside each(); everything around it is the same for all
/// of them. What threads write in one each(), others may read after a sync(). A thread keeps a
/// value from one each() to the next in a PerThread, a warp from one each_warp() to the next in a
/// PerWarp.
namespace shampoo::kernels::cuda {

/// One block of threads, on the host.
template <int Count>
class HostThreads {
 public:
  static constexpr int count = Count;

  explicit HostThreads(std::int64_t index) : index_(index) {}

  /// Index of the block in the launch.
  std::int64_t index() const { return index_; }

  /// body(thread) for every thread.
  template <typename Body>
  void each(Body&& body) {
    for (int thread = 0; thread < Count; ++thread) body(thread);
  }

  /// body(warp) for every 32 threads, which work as one.
  template <typename Body>
  void each_warp(Body&& body) {
    for (int warp = 0; warp < Count / 32; ++warp) body(warp);
  }

  void sync() {}

  template <typename T>
  class PerThread {
   public:
    T& operator[](int thread) { return values_[thread]; }

   private:
    T values_[Count] = {};
  };

  template <typename T>
  class PerWarp {
   public:
    T& operator[](int warp) { return values_[warp]; }

   private:
    T values_[Count / 32] = {};
  };

 private:
  std::int64_t index_;
};

#ifdef __CUDACC__
/// One block of threads, on a device.
template <int Count>
class DeviceThreads {
 public:
  static constexpr int count = Count;

  __device__ std::int64_t index() const { return blockIdx.x; }

  template <typename Body>
  __device__ void each(Body&& body) {
    body(static_cast<int>(threadIdx.x));
  }

  template <typename Body>
  __device__ void each_warp(Body&& body) {
    body(static_cast<int>(threadIdx.x) / 32);
  }

  __device__ void sync() { __syncthreads(); }

  template <typename T>
  class PerThread {
   public:
    __device__ T& operator[](int) { return value_; }

   private:
    T value_ = {};
  };

  template <typename T>
  using PerWarp = PerThread<T>;
};
#endif

}  // namespace shampoo::kernels::cuda
