// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/packed_triangle.h"

#include <algorithm>
#include <cstring>

namespace shampoo {

namespace {

/// Rows of an upper triangle per pass: one cache line of an array row.
constexpr std::int64_t rows_together = 16;

/// Elements before row i in packed order.
std::int64_t row_begin(const SlotStorage& storage, std::int64_t i) {
  if (storage.layout == StateLayout::vector) return i;
  return storage.layout == StateLayout::square ? i * storage.side : i * (i + 1) / 2;
}

/// Calls copy(array offset, packed offset, count) for each run of elements that is contiguous in
/// both.
template <typename Copy>
void for_each_run(const SlotStorage& storage, std::int64_t first, std::int64_t last,
                  const Copy& copy) {
  const std::int64_t n = storage.side, begin = row_begin(storage, first);
  if (storage.layout != StateLayout::symmetric || storage.packed)
    return copy(begin, 0, row_begin(storage, last) - begin);
  if (!storage.upper) {
    for (std::int64_t i = first; i < last; ++i)
      copy(i * (n + 1), row_begin(storage, i) - begin, i + 1);
    return;
  }
  for (std::int64_t top = first; top < last; top += rows_together) {
    const std::int64_t bottom = std::min(top + rows_together, last);
    for (std::int64_t j = 0; j < bottom; ++j)
      for (std::int64_t i = std::max(top, j); i < bottom; ++i)
        copy(j * (n + 1) + i + 1, row_begin(storage, i) - begin + j, 1);
  }
}

std::int64_t array_numbers(const SlotStorage& storage) {
  const std::int64_t n = storage.side;
  if (storage.layout == StateLayout::vector) return n;
  if (storage.packed) return n * (n + 1) / 2;
  return storage.layout == StateLayout::square ? n * n : n * (n + 1);
}

template <typename Word>
void pack_words(const std::byte* array, const SlotStorage& storage, std::int64_t first,
                std::int64_t last, std::byte* packed) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Word));
  for_each_run(storage, first, last, [&](std::int64_t at, std::int64_t to, std::int64_t count) {
    if (count == 1)
      std::memcpy(packed + to * size, array + at * size, sizeof(Word));
    else
      std::memcpy(packed + to * size, array + at * size, static_cast<std::size_t>(count * size));
  });
}

template <typename Word>
void unpack_words(const std::byte* packed, const SlotStorage& storage, std::byte* array) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Word));
  for_each_run(storage, 0, storage.side,
               [&](std::int64_t at, std::int64_t from, std::int64_t count) {
                 std::memcpy(array + at * size, packed + from * size,
                             static_cast<std::size_t>(count * size));
               });
}

template <typename Number>
void write_ones(const SlotStorage& storage, std::byte* array) {
  const std::int64_t n = storage.side;
  const std::int64_t row = storage.layout == StateLayout::vector   ? 0
                           : storage.layout == StateLayout::square ? n
                                                                   : n + 1;
  const Number one = 1;
  for (std::int64_t i = 0; i < n; ++i)
    std::memcpy(array + static_cast<std::size_t>(i * row + i + storage.upper) * sizeof(Number),
                &one, sizeof(Number));
}

template <typename Number>
bool has_ones(const SlotStorage& storage, const std::byte* packed) {
  const bool is_matrix = storage.layout != StateLayout::vector;
  for (std::int64_t i = 0; i < storage.side; ++i) {
    const std::int64_t begin = row_begin(storage, i);
    for (std::int64_t at = begin; at < row_begin(storage, i + 1); ++at) {
      Number number;
      std::memcpy(&number, packed + static_cast<std::size_t>(at) * sizeof(Number), sizeof(Number));
      if (number != (!is_matrix || at - begin == i ? 1 : 0)) return false;
    }
  }
  return true;
}

}  // namespace

std::size_t array_bytes(const SlotStorage& storage) {
  return static_cast<std::size_t>(array_numbers(storage)) * size_of(storage.type);
}

std::size_t packed_bytes(const SlotStorage& storage, std::int64_t first, std::int64_t last) {
  return static_cast<std::size_t>(row_begin(storage, last) - row_begin(storage, first)) *
         size_of(storage.type);
}

void pack_rows(const std::byte* array, const SlotStorage& storage, std::int64_t first,
               std::int64_t last, std::byte* packed) {
  if (storage.type == Type::float64)
    pack_words<double>(array, storage, first, last, packed);
  else
    pack_words<float>(array, storage, first, last, packed);
}

void pack(const std::byte* array, const SlotStorage& storage, std::byte* packed) {
  pack_rows(array, storage, 0, storage.side, packed);
}

void unpack(const std::byte* packed, const SlotStorage& storage, std::byte* array) {
  if (storage.type == Type::float64)
    unpack_words<double>(packed, storage, array);
  else
    unpack_words<float>(packed, storage, array);
}

bool is_identity(const SlotStorage& storage, const std::byte* packed) {
  return storage.type == Type::float64 ? has_ones<double>(storage, packed)
                                       : has_ones<float>(storage, packed);
}

void set_identity(const SlotStorage& storage, std::byte* array) {
  if (storage.type == Type::float64)
    write_ones<double>(storage, array);
  else
    write_ones<float>(storage, array);
}

}  // namespace shampoo
