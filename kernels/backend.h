// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "shampoo/kernels/types.h"

namespace shampoo {

namespace kernels {
class Memory;
}

/// The device, or a library that drives it, failed.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Memory and queue of computation: the host, or one stream of one GPU. Made by cpu_backend()
/// or cuda_backend(). Calls are queued in their order and do not wait unless they say so; they are
/// not concurrent.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Readable summary: device, threads, instruction set level, BLAS and its core type.
  virtual std::string description() const = 0;
  /// Everything that the bits of results depend on, for ranks and checkpoints to compare:
  /// instruction set level, BLAS and its core type.
  virtual std::string arithmetic() const = 0;
  /// Kind of the memory that allocate() returns: host or device.
  virtual MemoryKind memory_kind() const = 0;
  /// CUDA's number of the device; -1 on the host.
  virtual int device() const { return -1; }
  /// The cudaStream_t on which work is queued; null on the host.
  virtual void* stream() const { return nullptr; }

  /// Allocates zeroed, 64-byte aligned memory. Throws std::bad_alloc.
  virtual void* allocate(std::size_t bytes) = 0;
  /// Frees memory of allocate() once the work queued before has run. Null has no effect.
  virtual void release(void* memory) noexcept = 0;
  /// Copies host memory to `to`, memory of this backend. The host memory must not change until
  /// synchronize() has returned.
  virtual void upload(void* to, const void* from_host, std::size_t bytes) = 0;
  /// Copies memory of this backend to the host. The host memory may not be used until synchronize()
  /// has returned.
  virtual void download(void* to_host, const void* from, std::size_t bytes) = 0;
  /// Copies within the memory of this backend. The two ranges must not overlap.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void synchronize() = 0;  ///< waits for all queued work

 private:
  friend class kernels::Memory;
  Backend() = default;
};

/// Threads of a CPU backend that is not told how many: OMP_NUM_THREADS where it is set, as by
/// shampoorun and torchrun for several ranks; otherwise the processors that this process may run
/// on, divided among the ranks of this host where torchrun, shampoorun or mpirun says how many
/// there are, unless the launcher bound this rank to processors of its own. From 1 to 1024.
int default_threads();

struct CpuOptions {
  /// Workers, the calling thread included; 0: default_threads().
  int threads = 0;
  /// Sets up OpenBLAS, once per process: one thread per call, and kernels that fit the processor
  /// where it, or OPENBLAS_CORETYPE, chose older ones. description() reports what was done, and
  /// whether this is a copy of the library's own or one that the program shares.
  bool set_up_blas = true;
};

/// The host. Calls return when their work is done.
/// Throws std::invalid_argument unless 0 <= threads <= 1024, and std::runtime_error, naming the
/// folders that were searched, where the library's module with BLAS cannot be loaded.
std::unique_ptr<Backend> cpu_backend(const CpuOptions& options = {});

/// True if this build includes CUDA.
bool has_cuda();

/// Source of the device memory of a CUDA backend. Both functions are called on the thread that uses
/// the backend, with its device current; work that is queued on the stream may use memory until it
/// is released, in the order of the stream.
struct CudaAllocator {
  /// At least 256-byte aligned, or null where there is no more.
  std::function<void*(std::size_t bytes)> allocate;
  /// Takes back memory of allocate(), and may hand it out again for later work on the stream. Must
  /// not throw.
  std::function<void(void* memory)> release;
};

struct CudaOptions {
  /// Number of the device; -1: the one that is current on this thread. With a rank for each GPU,
  /// its local_rank_of_launcher(). Calls leave the thread's current device as it was, unless that
  /// one has not been used in this process: then this device stays current.
  int device = -1;
  /// cudaStream_t of that device, borrowed, on which everything runs; null: CUDA's default stream.
  void* stream = nullptr;
  /// Unless set, memory comes from a pool of the backend's own.
  CudaAllocator allocator = {};
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
