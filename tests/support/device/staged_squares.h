// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/device/staging.h"

namespace shampoo::test {

/// Rows of columns and flags that these matrices have.
template <typename Group>
std::int64_t rows_of(std::span<const Group> groups) {
  std::int64_t rows = 0;
  for (const Group& group : groups) rows = std::max(rows, group.first + group.count);
  return rows;
}

inline void note(Staging& staging, std::span<const kernels::SquareMatrixBatch> groups) {
  for (const kernels::SquareMatrixBatch& group : groups) {
    const auto bytes = static_cast<std::size_t>(group.count * group.side) * size_of(group.type);
    staging.note(group.data, bytes * static_cast<std::size_t>(group.side));
    staging.note(group.values, bytes);
  }
}

inline std::vector<kernels::SquareMatrixBatch> staged(
    Staging& staging, std::span<const kernels::SquareMatrixBatch> groups) {
  std::vector<kernels::SquareMatrixBatch> result(groups.begin(), groups.end());
  for (kernels::SquareMatrixBatch& group : result) {
    group.data = staging.at(group.data);
    group.values = staging.at(group.values);
  }
  return result;
}

}  // namespace shampoo::test
