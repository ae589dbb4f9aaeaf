// SPDX-License-Identifier: Apache-2.0
#include "shampoo/triangle.h"

#include <algorithm>
#include <cstring>

namespace shampoo {

namespace {

/// Rows of the triangle that are read or written together: one cache line of a root's row.
constexpr std::int64_t tile = 16;

constexpr std::int64_t row_begin(std::int64_t i) { return i * (i + 1) / 2; }

/// Calls copy(element of the array, element of the packed triangle, elements) for all of a factor.
template <typename Copy>
void for_rows_of_factor(std::int64_t n, const Copy& copy) {
  for (std::int64_t i = 0; i < n; ++i) copy(i * (n + 1), row_begin(i), i + 1);
}

/// Calls copy(element of the array, element of the packed triangle) for all of a root, whose rows
/// are columns of the packed triangle.
template <typename Copy>
void for_elements_of_root(std::int64_t n, const Copy& copy) {
  for (std::int64_t first = 0; first < n; first += tile) {
    const std::int64_t last = std::min(first + tile, n);
    for (std::int64_t j = 0; j < last; ++j)
      for (std::int64_t i = std::max(first, j); i < last; ++i)
        copy(j * (n + 1) + i + 1, row_begin(i) + j);
  }
}

template <typename Word>
void pack_words(const std::byte* array, Half half, std::int64_t n, std::byte* packed) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Word));
  if (half == Half::factor)
    for_rows_of_factor(n, [&](std::int64_t at, std::int64_t to, std::int64_t count) {
      std::memcpy(packed + to * size, array + at * size, static_cast<std::size_t>(count * size));
    });
  else
    for_elements_of_root(n, [&](std::int64_t at, std::int64_t to) {
      std::memcpy(packed + to * size, array + at * size, sizeof(Word));
    });
}

template <typename Word>
void unpack_words(const std::byte* packed, Half half, std::int64_t n, std::byte* array) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Word));
  if (half == Half::factor)
    for_rows_of_factor(n, [&](std::int64_t at, std::int64_t from, std::int64_t count) {
      std::memcpy(array + at * size, packed + from * size, static_cast<std::size_t>(count * size));
    });
  else
    for_elements_of_root(n, [&](std::int64_t at, std::int64_t from) {
      std::memcpy(array + at * size, packed + from * size, sizeof(Word));
    });
}

}  // namespace

void pack(const std::byte* array, Half half, std::int64_t n, Type type, std::byte* packed) {
  if (type == Type::float64)
    pack_words<double>(array, half, n, packed);
  else
    pack_words<float>(array, half, n, packed);
}

void unpack(const std::byte* packed, Half half, std::int64_t n, Type type, std::byte* array) {
  if (type == Type::float64)
    unpack_words<double>(packed, half, n, array);
  else
    unpack_words<float>(packed, half, n, array);
}

}  // namespace shampoo
