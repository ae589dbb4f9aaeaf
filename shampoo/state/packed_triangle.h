// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/rules/factor_layout.h"
#include "kernels/types.h"
#include "shampoo/state_dict.h"

namespace shampoo {

/// Storage of one slot in a backend array. A symmetric matrix lies in the array of a factor, see
/// kernels::FactorLayout: as the factor, or, where it shares the array of another slot, as the
/// root. A vector that shares such an array holds the scales of a root in float16. Otherwise a
/// square matrix is row-major, a vector contiguous.
struct SlotStorage {
  StateLayout layout = StateLayout::symmetric;  ///< layout other than elements
  bool shares = false;                          ///< in the array of another slot
  std::int64_t side = 0;
  Type type = Type::float32;
  kernels::FactorLayout array = kernels::FactorLayout::with_root;
  Type array_type = Type::float32;  ///< of the slot that has the array: float32 or float64
  bool operator==(const SlotStorage&) const = default;
};

/// Bytes in the array before the slot's part of it.
std::size_t part_begin(const SlotStorage& storage);
/// Bytes of the array, including the slots that share it.
std::size_t array_bytes(const SlotStorage& storage);
/// Bytes of the rows [first, last) in the packed order of a state dict.
std::size_t packed_bytes(const SlotStorage& storage, std::int64_t first, std::int64_t last);

/// Copies the rows [first, last) from the array into packed order. `packed` begins with row
/// `first`.
void pack_rows(const std::byte* array, const SlotStorage& storage, std::int64_t first,
               std::int64_t last, std::byte* packed);
/// Packs all rows.
void pack(const std::byte* array, const SlotStorage& storage, std::byte* packed);
/// Inverse of pack(). Does not modify slots that share the array.
void unpack(const std::byte* packed, const SlotStorage& storage, std::byte* array);
/// True if the packed numbers are those of the identity, or ones of a vector.
bool is_identity(const SlotStorage& storage, const std::byte* packed);
/// Writes the identity into a matrix of zeros, or ones into a vector.
void set_identity(const SlotStorage& storage, std::byte* array);

/// The slot with the scales of a root in float16; empty for a slot that has none.
std::string scales_slot_of(std::string_view slot);
/// square <- the n x n matrix whose packed lower triangle this is, row-major. With scales d, of
/// type `scales_type`, d_i C_ij d_j in that type.
void unpack_square(const std::byte* packed, Type type, std::int64_t n, std::byte* square);
void unpack_scaled_square(const std::byte* packed, Type type, const std::byte* scales,
                          Type scales_type, std::int64_t n, std::byte* square);

}  // namespace shampoo
