// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/buffer.h"

namespace shampoo::kernels {

template <typename T>
class StagedArray;

/// Arrays written by the host and read by kernels, packed into one allocation so that a single copy
/// brings all of them up to date. Must outlive every upload that is under way.
class StagedArrays {
 public:
  explicit StagedArrays(Backend& backend) : backend_(backend), mark_(backend.make_mark()) {}
  StagedArrays(const StagedArrays&) = delete;
  StagedArrays& operator=(const StagedArrays&) = delete;

  /// Adds an array of `count` elements; only before allocate(). The result must not outlive this.
  template <typename T>
  StagedArray<T> add(std::size_t count);

  /// Allocates the memory of all arrays, zeroed on both sides.
  void allocate();

  /// Queues one copy of all arrays to the backend if an element has changed since the last upload,
  /// and none otherwise. Waits until the previous copy is done.
  void upload();

  std::size_t bytes() const { return host_.size(); }

 private:
  template <typename T>
  friend class StagedArray;

  Backend& backend_;
  std::size_t end_ = 0;
  std::vector<std::byte> host_;
  HostBuffer sent_;  ///< source of the last copy, which may still be under way
  Buffer buffer_;
  std::unique_ptr<Mark> mark_;
  bool current_ = false;
};

/// One array of a StagedArrays, which it borrows. Before StagedArrays::allocate() only size() may
/// be called.
template <typename T>
class StagedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  StagedArray() = default;

  /// The host's elements; kernels see changes after StagedArrays::upload().
  std::span<T> host() const {
    if (size_ == 0) return {};
    return {reinterpret_cast<T*>(arrays_->host_.data() + offset_), size_};
  }
  T& operator[](std::size_t i) const { return host()[i]; }
  std::size_t size() const { return size_; }
  /// [backend]
  const T* data() const {
    if (size_ == 0) return nullptr;
    return reinterpret_cast<const T*>(static_cast<const std::byte*>(arrays_->buffer_.data()) +
                                      offset_);
  }

 private:
  friend class StagedArrays;
  StagedArray(StagedArrays& arrays, std::size_t offset, std::size_t size)
      : arrays_(&arrays), offset_(offset), size_(size) {}

  StagedArrays* arrays_ = nullptr;
  std::size_t offset_ = 0, size_ = 0;
};

template <typename T>
StagedArray<T> StagedArrays::add(std::size_t count) {
  constexpr std::size_t alignment = 64;
  const std::size_t offset = (end_ + alignment - 1) / alignment * alignment;
  end_ = offset + count * sizeof(T);
  return StagedArray<T>(*this, offset, count);
}

}  // namespace shampoo::kernels
