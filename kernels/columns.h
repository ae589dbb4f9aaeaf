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
class Column;

/// Arrays that the host writes and kernels read, side by side, so that one copy brings all of them
/// up to date. Must not go while an upload is under way.
class Columns {
 public:
  explicit Columns(Backend& backend) : backend_(backend), mark_(backend.make_mark()) {}
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  /// Place for `count` elements, before allocate(). The column must not outlive this.
  template <typename T>
  Column<T> add(std::size_t count);

  /// Gets the memory, zeroed on either side.
  void allocate();

  /// One copy, behind which kernels read what the host has written; none where nothing changed.
  /// Waits for the copy before.
  void upload();

  std::size_t bytes() const { return host_.size(); }

 private:
  template <typename T>
  friend class Column;

  Backend& backend_;
  std::size_t end_ = 0;
  std::vector<std::byte> host_;
  HostBuffer sent_;  ///< what upload() sends from, and sent last
  Buffer buffer_;
  std::unique_ptr<Mark> mark_;
  bool current_ = false;
};

/// One of the arrays. Borrows. Nothing but size() before Columns::allocate().
template <typename T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Column() = default;

  /// What the host writes.
  std::span<T> host() const {
    if (size_ == 0) return {};
    return {reinterpret_cast<T*>(columns_->host_.data() + offset_), size_};
  }
  T& operator[](std::size_t i) const { return host()[i]; }
  std::size_t size() const { return size_; }
  /// [backend]
  const T* data() const {
    if (size_ == 0) return nullptr;
    return reinterpret_cast<const T*>(static_cast<const std::byte*>(columns_->buffer_.data()) +
                                      offset_);
  }

 private:
  friend class Columns;
  Column(Columns& columns, std::size_t offset, std::size_t size)
      : columns_(&columns), offset_(offset), size_(size) {}

  Columns* columns_ = nullptr;
  std::size_t offset_ = 0, size_ = 0;
};

template <typename T>
Column<T> Columns::add(std::size_t count) {
  constexpr std::size_t alignment = 64;
  const std::size_t offset = (end_ + alignment - 1) / alignment * alignment;
  end_ = offset + count * sizeof(T);
  return Column<T>(*this, offset, count);
}

}  // namespace shampoo::kernels
