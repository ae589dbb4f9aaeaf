// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>

namespace shampoo::kernels {

constexpr std::size_t cache_line = 64;

/// Bytes that `count` elements take in scratch memory.
template <typename T>
constexpr std::size_t scratch_bytes(std::int64_t count) {
  return (static_cast<std::size_t>(count) * sizeof(T) + cache_line - 1) / cache_line * cache_line;
}

/// Bump allocator for one worker; cleared before every task.
class Scratch {
 public:
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    memory_.reset();
    bytes_ = 0;
    memory_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{cache_line})));
    bytes_ = bytes;
  }

  std::size_t bytes() const { return bytes_; }

  /// Releases everything that was taken.
  void clear() { used_ = 0; }

  /// Throws std::logic_error if more is taken than was reserved.
  template <typename T>
  T* take(std::int64_t count) {
    const std::size_t bytes = scratch_bytes<T>(count);
    if (bytes > bytes_ - used_)
      throw std::logic_error("cpu backend: reserve() has not been called for matrices this large");
    T* const taken = reinterpret_cast<T*>(memory_.get() + used_);
    used_ += bytes;
    return taken;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept {
      ::operator delete (memory, std::align_val_t{cache_line});
    }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0, used_ = 0;
};

}  // namespace shampoo::kernels
