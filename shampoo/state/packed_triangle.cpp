// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/packed_triangle.h"

#include <algorithm>
#include <cstring>

#include "kernels/rules/stored.h"

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
  if (storage.layout != StateLayout::symmetric || kernels::is_packed(storage.array))
    return copy(begin, 0, row_begin(storage, last) - begin);
  if (!storage.shares) {
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

bool is_in_factor_array(const SlotStorage& storage) {
  return storage.layout == StateLayout::symmetric || storage.shares;
}

Type array_type(const SlotStorage& storage) {
  return storage.shares ? storage.array_type : storage.type;
}

/// Numbers before the diagonal's element i in the slot's part of the array.
std::int64_t diagonal(const SlotStorage& storage, std::int64_t i) {
  const std::int64_t n = storage.side;
  if (storage.layout == StateLayout::vector) return i;
  if (storage.layout == StateLayout::square) return i * (n + 1);
  if (kernels::is_packed(storage.array)) return row_begin(storage, i) + i;
  return i * (n + 2) + storage.shares;
}

/// body(0 of the numbers' type)
template <typename Body>
auto with_number(Type type, const Body& body) {
  if (type == Type::float64) return body(double());
  if (type == Type::float32) return body(float());
  return body(kernels::Float16());
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
void write_ones(const SlotStorage& storage, std::byte* part) {
  const auto one = kernels::stored<Number>(1.0f);
  for (std::int64_t i = 0; i < storage.side; ++i)
    std::memcpy(part + static_cast<std::size_t>(diagonal(storage, i)) * sizeof(Number), &one,
                sizeof(Number));
}

template <typename Number>
bool has_ones(const SlotStorage& storage, const std::byte* packed) {
  const bool is_matrix = storage.layout != StateLayout::vector;
  for (std::int64_t i = 0; i < storage.side; ++i) {
    const std::int64_t begin = row_begin(storage, i);
    for (std::int64_t at = begin; at < row_begin(storage, i + 1); ++at) {
      Number number;
      std::memcpy(&number, packed + static_cast<std::size_t>(at) * sizeof(Number), sizeof(Number));
      if (kernels::real<double>(number) != (!is_matrix || at - begin == i ? 1 : 0)) return false;
    }
  }
  return true;
}

}  // namespace

std::size_t part_begin(const SlotStorage& storage) {
  if (!storage.shares || storage.array != kernels::FactorLayout::with_float16_root) return 0;
  const std::int64_t begin = storage.layout == StateLayout::vector
                                 ? kernels::scales_begin(storage.side)
                                 : kernels::float16_begin(storage.side);
  return static_cast<std::size_t>(begin) * size_of(storage.array_type);
}

std::size_t array_bytes(const SlotStorage& storage) {
  const std::size_t size = size_of(array_type(storage));
  const std::int64_t n = storage.side;
  const std::int64_t numbers =
      is_in_factor_array(storage)
          ? kernels::array_elements(storage.array, n, static_cast<std::int64_t>(size))
      : storage.layout == StateLayout::square ? n * n
                                              : n;
  return static_cast<std::size_t>(numbers) * size;
}

std::size_t packed_bytes(const SlotStorage& storage, std::int64_t first, std::int64_t last) {
  return static_cast<std::size_t>(row_begin(storage, last) - row_begin(storage, first)) *
         size_of(storage.type);
}

void pack_rows(const std::byte* array, const SlotStorage& storage, std::int64_t first,
               std::int64_t last, std::byte* packed) {
  with_number(storage.type, [&]<typename Number>(Number) {
    pack_words<Number>(array + part_begin(storage), storage, first, last, packed);
  });
}

void pack(const std::byte* array, const SlotStorage& storage, std::byte* packed) {
  pack_rows(array, storage, 0, storage.side, packed);
}

void unpack(const std::byte* packed, const SlotStorage& storage, std::byte* array) {
  with_number(storage.type, [&]<typename Number>(Number) {
    unpack_words<Number>(packed, storage, array + part_begin(storage));
  });
}

bool is_identity(const SlotStorage& storage, const std::byte* packed) {
  return with_number(storage.type,
                     [&]<typename Number>(Number) { return has_ones<Number>(storage, packed); });
}

void set_identity(const SlotStorage& storage, std::byte* array) {
  with_number(storage.type, [&]<typename Number>(Number) {
    write_ones<Number>(storage, array + part_begin(storage));
  });
}

std::string scales_slot_of(std::string_view slot) {
  constexpr std::string_view roots = "root/";
  if (!slot.starts_with(roots)) return {};
  return "root_scale/" + std::string(slot.substr(roots.size()));
}

void unpack_square(const std::byte* packed, Type type, std::int64_t n, std::byte* square) {
  const std::size_t size = size_of(type), side = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < side; ++i)
    for (std::size_t j = 0; j <= i; ++j, packed += size) {
      std::memcpy(square + (i * side + j) * size, packed, size);
      std::memcpy(square + (j * side + i) * size, packed, size);
    }
}

void unpack_scaled_square(const std::byte* packed, Type type, const std::byte* scales,
                          Type scales_type, std::int64_t n, std::byte* square) {
  const std::size_t side = static_cast<std::size_t>(n);
  const auto number = [](const std::byte* all, Type of, std::size_t index) {
    return with_number(of, [&]<typename Number>(Number value) {
      std::memcpy(&value, all + index * sizeof(Number), sizeof(Number));
      return kernels::real<double>(value);
    });
  };
  for (std::size_t i = 0; i < side; ++i)
    for (std::size_t j = 0; j < side; ++j) {
      const std::size_t low = std::max(i, j), place = low * (low + 1) / 2 + std::min(i, j);
      // Scales are powers of two: exact.
      const double product = number(scales, scales_type, i) * number(packed, type, place) *
                             number(scales, scales_type, j);
      with_number(scales_type, [&]<typename Number>(Number) {
        const auto value = kernels::stored<Number>(product);
        std::memcpy(square + (i * side + j) * sizeof(Number), &value, sizeof(Number));
      });
    }
}

}  // namespace shampoo
