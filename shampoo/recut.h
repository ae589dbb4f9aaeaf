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
  std::vector<char> filled = {};  ///< per element: 0 or 1
  std::int64_t missing = 0;       ///< elements
};

/// Copies the elements, `size` bytes each, that two parts of one tensor have in common. Shapes may
/// differ in how dimensions are merged: elements are matched by their row-major index in the
/// tensor. False where one was there already.
bool copy_common(const Part& from, const std::byte* bytes, const Part& to, Assembly& assembly,
                 std::size_t size);

}  // namespace shampoo
