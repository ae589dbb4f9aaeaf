// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "distributor/communicator.h"

namespace shampoo::test {

/// Memory that the collectives of a test work on: the host's, unless a test of another kind brings
/// its own.
class LeasedMemory {
 public:
  virtual ~LeasedMemory() = default;
  virtual StreamRef stream() const { return {}; }
  virtual std::shared_ptr<void> allocate(std::size_t bytes) {
    return std::make_shared<std::vector<std::byte>>(bytes);
  }
  /// Address of memory that allocate() returned.
  virtual void* address(const std::shared_ptr<void>& memory) {
    return static_cast<std::vector<std::byte>*>(memory.get())->data();
  }
  virtual void write(void* to, const void* from_host, std::size_t bytes) {
    std::memcpy(to, from_host, bytes);
  }
  /// Waits for the stream.
  virtual void read(void* to_host, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to_host, from, bytes);
  }
};

/// Numbers of the host, and their copy in such memory.
template <typename T>
class Leased {
 public:
  Leased(LeasedMemory& memory, std::vector<T> numbers)
      : host(std::move(numbers)),
        memory_(memory),
        keep_alive_(memory.allocate(host.size() * sizeof(T))) {
    if (!host.empty()) memory_.write(data(), host.data(), host.size() * sizeof(T));
  }

  T* data() { return static_cast<T*>(memory_.address(keep_alive_)); }
  /// The copy, when the stream has come so far.
  std::vector<T>& read() {
    memory_.read(host.data(), data(), host.size() * sizeof(T));
    return host;
  }
  /// For leases.
  const std::shared_ptr<void>& keep_alive() const { return keep_alive_; }

  std::vector<T> host;

 private:
  LeasedMemory& memory_;
  std::shared_ptr<void> keep_alive_;
};

}  // namespace shampoo::test
