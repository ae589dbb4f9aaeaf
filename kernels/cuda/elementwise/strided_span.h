// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/vector_access.h"
#include "kernels/rules/stored.h"
#include "kernels/views.h"

/// Elements of a tile in some array, in the order of flat slots, and access to groups of them that
/// one thread works on: 16 bytes at a time where addresses allow it. Groups start at multiples of
/// their size in the tile wherever it lies, so that sums do not depend on addresses.
namespace shampoo::kernels::cuda {

/// Elements of a group: 16 bytes of the smallest type.
inline constexpr int group_size = 8;

struct StridedSpan {
  void* first = nullptr;
  Type type = Type::float32;
  std::int32_t columns = 1;
  std::int64_t row = 1, column = 1;  ///< strides in elements
  bool packed = false;               ///< all elements are back to back
  bool aligned = false;              ///< whole groups can be accessed 16 bytes at a time

  SHAMPOO_BOTH std::int64_t place(std::int32_t element) const {
    return packed ? element : element / columns * row + element % columns * column;
  }
};

SHAMPOO_BOTH inline bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
}

/// Elements that are strided as the caller's tensors are.
SHAMPOO_BOTH inline StridedSpan strided(void* base, Type type, const Tile& tile, std::int64_t first,
                                        std::int64_t row, std::int64_t column) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  StridedSpan span{static_cast<char*>(base) + first * size, type, tile.columns, row, column};
  const bool whole_rows = column == 1 && tile.columns % group_size == 0 && row * size % 16 == 0;
  span.packed = column == 1 && (tile.rows == 1 || row == tile.columns);
  span.aligned = is_aligned(span.first) && (span.packed || whole_rows);
  return span;
}

/// Elements back to back.
SHAMPOO_BOTH inline StridedSpan packed(void* first, Type type) {
  return {first, type, 1, 1, 1, true, is_aligned(first)};
}

SHAMPOO_BOTH inline StridedSpan gradient_span(const Tensors& tensors, const Tile& tile) {
  return strided(const_cast<void*>(tensors.gradients[tile.tensor]),
                 tensors.gradient_types[tile.tensor], tile, tile.gradient, tile.gradient_row,
                 tile.gradient_column);
}

SHAMPOO_BOTH inline StridedSpan value_span(const Tensors& tensors, const Tile& tile) {
  return strided(tensors.values[tile.tensor], tensors.value_types[tile.tensor], tile, tile.value,
                 tile.value_row, tile.value_column);
}

template <typename Stored>
struct alignas(16) Vec16 {
  Stored elements[16 / sizeof(Stored)];
};

template <typename Stored>
SHAMPOO_BOTH inline Vec16<Stored> vector_at(const Stored* from) {
  if constexpr (sizeof(Stored) == 2)
    return load16<Vec16<Stored>>(from);
  else
    return *reinterpret_cast<const Vec16<Stored>*>(from);
}

template <typename Stored>
SHAMPOO_BOTH inline void set_vector_at(Stored* to, const Vec16<Stored>& from) {
  if constexpr (sizeof(Stored) == 2)
    store16(to, from);
  else
    *reinterpret_cast<Vec16<Stored>*>(to) = from;
}

template <typename Stored, typename Real>
SHAMPOO_BOTH inline void read_as(const StridedSpan& span, std::int32_t i, std::int32_t count,
                                 Real (&x)[group_size]) {
  const Stored* const from = static_cast<const Stored*>(span.first);
  if (span.aligned && count >= group_size) {
    constexpr int width = 16 / sizeof(Stored);
    const Stored* const first = from + span.place(i);
    Vec16<Stored> loaded[group_size / width];
    for (int v = 0; v < group_size / width; ++v) loaded[v] = vector_at<Stored>(first + v * width);
    for (int k = 0; k < group_size; ++k) x[k] = real<Real>(loaded[k / width].elements[k % width]);
    return;
  }
  for (int k = 0; k < group_size; ++k)
    x[k] = k < count ? real<Real>(from[span.place(i + k)]) : Real(0);
}

template <typename Stored, typename Real>
SHAMPOO_BOTH inline void write_as(const StridedSpan& span, std::int32_t i, std::int32_t count,
                                  const Real (&x)[group_size]) {
  Stored* const to = static_cast<Stored*>(span.first);
  if (span.aligned && count >= group_size) {
    constexpr int width = 16 / sizeof(Stored);
    Stored* const first = to + span.place(i);
    for (int v = 0; v < group_size / width; ++v) {
      Vec16<Stored> all;
      for (int k = 0; k < width; ++k) all.elements[k] = stored<Stored>(x[v * width + k]);
      set_vector_at(first + v * width, all);
    }
    return;
  }
  for (int k = 0; k < group_size; ++k)
    if (k < count) to[span.place(i + k)] = stored<Stored>(x[k]);
}

/// x <- elements i, i + 1, ..., of which `count` belong to the tile; then zeros.
template <typename Real>
SHAMPOO_BOTH inline void read(const StridedSpan& span, std::int32_t i, std::int32_t count,
                              Real (&x)[group_size]) {
  with_type(span.type, [&](auto* tag) {
    read_as<std::remove_const_t<std::remove_pointer_t<decltype(tag)>>>(span, i, count, x);
  });
}

template <typename Real>
SHAMPOO_BOTH inline void write(const StridedSpan& span, std::int32_t i, std::int32_t count,
                               const Real (&x)[group_size]) {
  with_type(span.type, [&](auto* tag) {
    write_as<std::remove_const_t<std::remove_pointer_t<decltype(tag)>>>(span, i, count, x);
  });
}

template <typename Real>
constexpr Type type_of_real = sizeof(Real) == 4 ? Type::float32 : Type::float64;

/// A flat slot's elements of a tile.
template <typename Real>
SHAMPOO_BOTH inline StridedSpan slot_span(const void* slot, const Tile& tile) {
  auto* const first = const_cast<Real*>(static_cast<const Real*>(slot));
  return packed(first == nullptr ? nullptr : first + tile.flat, type_of_real<Real>);
}

/// body(first element, elements of the tile from there) for every group of this thread.
template <typename Threads, typename Body>
SHAMPOO_BOTH void for_each_group(Threads&, int thread, const Tile& tile, Body&& body) {
  const std::int32_t count = tile.rows * tile.columns;
  for (std::int32_t i = thread * group_size; i < count; i += Threads::count * group_size)
    body(i, count - i);
}

}  // namespace shampoo::kernels::cuda
