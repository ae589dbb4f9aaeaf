// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/packed_triangle.h"

#include <algorithm>
#include <cstring>

namespace shampoo {

namespace {

/// Rows of the triangle that are read or written together: one cache line of a root's row.
constexpr std::int64_t tile = 16;

constexpr std::int64_t row_begin(std::int64_t i) { return i * (i + 1) / 2; }

/// Rows of the triangle of a matrix of side n.
struct Rows {
  std::int64_t first, last, n;
};

/// Calls copy(element of the array, element of the packed triangle, elements) for rows of a factor.
template <typename Copy>
void for_rows_of_factor(Rows rows, const Copy& copy) {
  for (std::int64_t i = rows.first; i < rows.last; ++i) copy(i * (rows.n + 1), row_begin(i), i + 1);
}

/// Calls copy(element of the array, element of the packed triangle) for rows of the triangle of a
/// root, which are columns of the array.
template <typename Copy>
void for_elements_of_root(Rows rows, const Copy& copy) {
  for (std::int64_t first = rows.first; first < rows.last; first += tile) {
    const std::int64_t last = std::min(first + tile, rows.last);
    for (std::int64_t j = 0; j < last; ++j)
      for (std::int64_t i = std::max(first, j); i < last; ++i)
        copy(j * (rows.n + 1) + i + 1, row_begin(i) + j);
  }
}

/// `packed` begins with the first of the rows.
template <typename Word>
void pack_words(const std::byte* array, Half half, Rows rows, std::byte* packed) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t begin = row_begin(rows.first);
  if (half == Half::factor)
    for_rows_of_factor(rows, [&](std::int64_t at, std::int64_t to, std::int64_t count) {
      std::memcpy(packed + (to - begin) * size, array + at * size,
                  static_cast<std::size_t>(count * size));
    });
  else
    for_elements_of_root(rows, [&](std::int64_t at, std::int64_t to) {
      std::memcpy(packed + (to - begin) * size, array + at * size, sizeof(Word));
    });
}

template <typename Word>
void unpack_words(const std::byte* packed, Half half, std::int64_t n, std::byte* array) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Word));
  if (half == Half::factor)
    for_rows_of_factor({0, n, n}, [&](std::int64_t at, std::int64_t from, std::int64_t count) {
      std::memcpy(array + at * size, packed + from * size, static_cast<std::size_t>(count * size));
    });
  else
    for_elements_of_root({0, n, n}, [&](std::int64_t at, std::int64_t from) {
      std::memcpy(array + at * size, packed + from * size, sizeof(Word));
    });
}

}  // namespace

void pack(const std::byte* array, Half half, std::int64_t n, Type type, std::byte* packed) {
  pack_rows(array, half, 0, n, n, type, packed);
}

void pack_rows(const std::byte* array, Half half, std::int64_t first, std::int64_t last,
               std::int64_t n, Type type, std::byte* packed) {
  if (type == Type::float64)
    pack_words<double>(array, half, {first, last, n}, packed);
  else
    pack_words<float>(array, half, {first, last, n}, packed);
}

void unpack(const std::byte* packed, Half half, std::int64_t n, Type type, std::byte* array) {
  if (type == Type::float64)
    unpack_words<double>(packed, half, n, array);
  else
    unpack_words<float>(packed, half, n, array);
}

}  // namespace shampoo
