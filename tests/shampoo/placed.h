// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <vector>

#include "kernels/buffer.h"

namespace shampoo::test {

/// Waits. Without a backend both are memory of the host.
inline void download(kernels::Backend* backend, void* to_host, const void* from,
                     std::size_t bytes) {
  if (backend == nullptr) {
    if (bytes != 0) std::memcpy(to_host, from, bytes);
    return;
  }
  backend->download(to_host, from, bytes);
  backend->synchronize();
}

/// An array of the host where a backend can work on it: there, or as a copy in the backend's
/// memory. Both are borrowed.
template <typename T>
class Placed {
 public:
  /// Null: of the host.
  Placed(kernels::Backend* backend, std::vector<T>& host)
      : backend_(backend && backend->memory_kind() != MemoryKind::host ? backend : nullptr),
        host_(host) {
    if (backend_ == nullptr) return;
    there_ = kernels::Buffer(*backend_, host.size() * sizeof(T));
    send();
  }

  T* data() { return backend_ ? static_cast<T*>(there_.data()) : host_.data(); }

  /// Queues a copy of what the array of the host holds now.
  void send() {
    if (backend_ == nullptr) return;
    sent_.push_back(host_);
    backend_->upload(there_.data(), sent_.back().data(), there_.bytes());
  }
  /// What is there. Waits.
  std::vector<T> fetch() const {
    std::vector<T> copy = host_;
    if (backend_) download(backend_, copy.data(), there_.data(), there_.bytes());
    return copy;
  }

 private:
  kernels::Backend* backend_;
  std::vector<T>& host_;
  kernels::Buffer there_;
  std::deque<std::vector<T>> sent_;  ///< copies may still be under way
};

}  // namespace shampoo::test
