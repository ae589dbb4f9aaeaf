// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace shampoo::kernels {

/// Gives memory back to its backend.
struct Release {
  Backend* backend = nullptr;
  void operator()(void* memory) const noexcept { backend->release(memory); }
};
struct ReleaseHost {
  Backend* backend = nullptr;
  void operator()(void* memory) const noexcept { backend->release_host(memory); }
};

/// Owning, move-only memory of a backend, which must outlive it. Zeroed.
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

/// The same, of the host's memory that uploads and downloads reach. Must not go while they do.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(Backend& backend, std::size_t bytes)
      : memory_(bytes == 0 ? nullptr : backend.allocate_host(bytes), ReleaseHost{&backend}) {}

  void* data() const { return memory_.get(); }

 private:
  std::unique_ptr<void, ReleaseHost> memory_;
};

/// Waits for the backend when it goes. The last member of a class whose memory queued work reaches.
class Settled {
 public:
  explicit Settled(Backend& backend) : backend_(backend) {}
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;
  ~Settled() {
    try {
      backend_.synchronize();
    } catch (...) {  // the device is lost, and with it the work
    }
  }

 private:
  Backend& backend_;
};

/// An array that the host writes and kernels read. Its copy in the backend's memory is brought up
/// to date by upload(), which does nothing while the host's elements are unchanged, and otherwise
/// waits for the upload before. Must not go while an upload is under way.
template <typename T>
class Mirror {
 public:
  Mirror() = default;
  Mirror(Backend& backend, std::size_t count)
      : host(count),
        sent_(backend, count * sizeof(T)),
        buffer_(backend, count * sizeof(T)),
        mark_(backend.make_mark()) {}

  void upload(Backend& backend) {
    const std::size_t bytes = host.size() * sizeof(T);
    if (bytes == 0 || (current_ && std::memcmp(host.data(), sent_.data(), bytes) == 0)) return;
    mark_->wait();
    std::memcpy(sent_.data(), host.data(), bytes);
    backend.upload(buffer_.data(), sent_.data(), bytes);
    mark_->set();
    current_ = true;
  }

  /// [backend]
  const T* data() const { return static_cast<const T*>(buffer_.data()); }
  std::size_t bytes() const { return buffer_.bytes(); }

  std::vector<T> host;  ///< same size as at construction

 private:
  HostBuffer sent_;
  Buffer buffer_;
  std::unique_ptr<Mark> mark_;
  bool current_ = false;
};

}  // namespace shampoo::kernels
