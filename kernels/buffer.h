// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/facets.h"

namespace shampoo::kernels {

/// Deleters that return memory to its backend.
struct Release {
  Backend* backend = nullptr;
  void operator()(void* memory) const noexcept { backend->release(memory); }
};
struct ReleaseHost {
  Backend* backend = nullptr;
  void operator()(void* memory) const noexcept { backend->release_host(memory); }
};

/// Owning, move-only memory of a backend, zeroed. The backend must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Backend& backend, std::size_t bytes)
      : memory_(bytes == 0 ? nullptr : backend.allocate(bytes), Release{&backend}), bytes_(bytes) {}

  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return memory_ ? bytes_ : 0; }

 private:
  std::unique_ptr<void, Release> memory_;
  std::size_t bytes_ = 0;
};

/// The same for host memory that uploads and downloads access directly. Must outlive those copies.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(Backend& backend, std::size_t bytes)
      : memory_(bytes == 0 ? nullptr : backend.allocate_host(bytes), ReleaseHost{&backend}) {}

  void* data() const { return memory_.get(); }

 private:
  std::unique_ptr<void, ReleaseHost> memory_;
};

/// Synchronizes the backend when destroyed. Make it the last member of a class whose memory is
/// accessed by queued work, so that it is destroyed first.
class Settled {
 public:
  explicit Settled(Backend& backend) : backend_(backend) {}
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;
  ~Settled() {
    try {
      backend_.synchronize();
    } catch (...) {  // the device is lost, and the work with it
    }
  }

 private:
  Backend& backend_;
};

}  // namespace shampoo::kernels
