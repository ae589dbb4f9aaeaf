// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grouping/blocks.h"

namespace shampoo {

/// A box of a tensor, with contiguous elements in row-major order.
struct TensorSlice {
  const grouping::Shape& shape;  ///< shape of the whole tensor
  const grouping::Box& box;
};

/// Destination slice that is assembled from other slices.
struct SliceBuffer {
  std::byte* bytes = nullptr;
  std::int64_t count = 0;         ///< number of elements
  std::vector<char> filled = {};  ///< one flag per element; empty: sources are known to be disjoint
  std::int64_t missing = count;   ///< number of elements not yet written
};

/// Returns true if two slices of a tensor may have elements in common; exact if their shapes are
/// equal.
bool may_overlap(const TensorSlice& a, const TensorSlice& b);

/// Consecutive elements of a slice in its row-major order.
struct ElementRun {
  std::int64_t first = 0, count = 0;
  const std::byte* bytes = nullptr;  ///< first element
};

/// copy_common() for a run of the elements of `from`.
bool copy_run(const TensorSlice& from, const ElementRun& run, const TensorSlice& to,
              SliceBuffer& buffer, std::size_t size);

/// Copies the elements, `size` bytes each, that two slices of a tensor have in common. Shapes may
/// differ in how dimensions are merged: elements are matched by their row-major index in the
/// tensor. Returns false if an element was already filled.
bool copy_common(const TensorSlice& from, const std::byte* bytes, const TensorSlice& to,
                 SliceBuffer& buffer, std::size_t size);

}  // namespace shampoo
