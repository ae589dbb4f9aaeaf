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

/// An array that the host writes and kernels read. Its copy in the backend's memory is brought up
/// to date by upload(), which does nothing while the host's elements are unchanged.
template <typename T>
class Mirror {
 public:
  Mirror() = default;
  Mirror(Backend& backend, std::size_t count)
      : host(count), sent_(count), buffer_(backend, count * sizeof(T)) {}

  void upload(Backend& backend) {
    const std::size_t bytes = host.size() * sizeof(T);
    if (bytes == 0 || (current_ && std::memcmp(host.data(), sent_.data(), bytes) == 0)) return;
    std::memcpy(static_cast<void*>(sent_.data()), host.data(), bytes);
    backend.upload(buffer_.data(), sent_.data(), bytes);
    current_ = true;
  }

  /// [backend]
  const T* data() const { return static_cast<const T*>(buffer_.data()); }
  std::size_t bytes() const { return buffer_.bytes(); }

  std::vector<T> host;  ///< same size as at construction

 private:
  std::vector<T> sent_;
  Buffer buffer_;
  bool current_ = false;
};

}  // namespace shampoo::kernels
