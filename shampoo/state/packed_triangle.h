// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/types.h"
#include "shampoo/state_dict.h"

namespace shampoo {

/// Storage of one slot in a backend array. A symmetric matrix of side n is the lower triangle
/// of a row-major n x (n + 1) array, element (i, j) with j <= i at i (n + 1) + j, or, where two
/// slots share the array, the upper one, element (j, i) at j (n + 1) + i + 1: BLAS reads either in
/// place. A square matrix is row-major, a vector contiguous.
struct SlotStorage {
  StateLayout layout = StateLayout::symmetric;  ///< layout other than elements
  /// True for the upper triangle of a symmetric matrix.
  bool upper = false;
  std::int64_t side = 0;
  Type type = Type::float32;  ///< float32 or float64
  bool packed = false;        ///< a symmetric matrix as a state dict holds it, with no other
};

/// Bytes of the array, including the slot that shares it.
std::size_t array_bytes(const SlotStorage& storage);
/// Bytes of the rows [first, last) in the packed order of a state dict.
std::size_t packed_bytes(const SlotStorage& storage, std::int64_t first, std::int64_t last);

/// Copies the rows [first, last) from the array into packed order. `packed` begins with row
/// `first`.
void pack_rows(const std::byte* array, const SlotStorage& storage, std::int64_t first,
               std::int64_t last, std::byte* packed);
/// Packs all rows.
void pack(const std::byte* array, const SlotStorage& storage, std::byte* packed);
/// Inverse of pack(). Does not modify a slot that shares the array.
void unpack(const std::byte* packed, const SlotStorage& storage, std::byte* array);
/// True if the packed numbers are those of the identity, or ones of a vector.
bool is_identity(const SlotStorage& storage, const std::byte* packed);
/// Writes the identity into a matrix of zeros, or ones into a vector. Not for packed matrices.
void set_identity(const SlotStorage& storage, std::byte* array);

}  // namespace shampoo
