// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grouping/blocks.h"

namespace shampoo {

/// A box of a tensor, its elements back to back in row-major order.
struct Part {
  const grouping::Shape& shape;  ///< of the whole tensor
  const grouping::Box& box;
};

/// The elements of a part that is put together from others.
struct Assembly {
  std::byte* bytes = nullptr;
  std::int64_t count = 0;         ///< elements
  std::vector<char> filled = {};  ///< per element: 0 or 1; empty: parts are known to be disjoint
  std::int64_t missing = count;   ///< elements
};

/// Whether two parts of one tensor may have elements in common; exact where their shapes are equal.
bool may_overlap(const Part& a, const Part& b);

/// Elements of a part that follow each other in its row-major order.
struct Stretch {
  std::int64_t first = 0, count = 0;
  const std::byte* bytes = nullptr;  ///< of the first
};

/// As copy_common(), for some of the elements of `from`.
bool copy_stretch(const Part& from, const Stretch& stretch, const Part& to, Assembly& assembly,
                  std::size_t size);

/// Copies the elements, `size` bytes each, that two parts of one tensor have in common. Shapes may
/// differ in how dimensions are merged: elements are matched by their row-major index in the
/// tensor. False where one was there already.
bool copy_common(const Part& from, const std::byte* bytes, const Part& to, Assembly& assembly,
                 std::size_t size);

}  // namespace shampoo
