// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/table.h"
#include "tests/support/device/backends.h"

/// For tests that a result has the same bits alone, in a batch of any size, next to other shapes,
/// and on any number of threads.
namespace shampoo::test {

inline void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* const first = static_cast<const unsigned char*>(from);
  to.insert(to.end(), first, first + bytes);
}

/// Threads are the CPU's business.
inline int most_threads(Place place) { return place == Place::cpu ? 3 : 1; }

/// An emulated device takes its time.
inline std::vector<std::uint64_t> batches(Place place) {
  if (place == Place::emulated) return {2, 3};
  return {1, 2, 3, 4, 5, 6, 7, 8, 9};
}

/// Of all that a step may change but for factors and norms of directions.
inline void expect_equal(const Table& a, const Table& b) {
  EXPECT_EQ(a.first_moment, b.first_moment);
  EXPECT_EQ(a.second_moment, b.second_moment);
  EXPECT_EQ(a.companion, b.companion);
  EXPECT_EQ(a.grafting_moment, b.grafting_moment);
  EXPECT_EQ(a.grafting_norms, b.grafting_norms);
  EXPECT_EQ(a.momentum, b.momentum);
  EXPECT_EQ(a.masters, b.masters);
  EXPECT_EQ(a.segment, b.segment);
  for (std::size_t i = 0; i < a.values.size(); ++i)
    EXPECT_EQ(a.values[i].memory, b.values[i].memory);
}

}  // namespace shampoo::test
