// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/device/backends.h"

/// For tests that a result has the same bits alone, in a batch of any size, next to other shapes,
/// and on any number of threads.
namespace shampoo::test {

using Bytes = std::vector<std::byte>;

inline void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(from);
  to.insert(to.end(), first, first + bytes);
}

/// Threads are the CPU's business.
inline int most_threads(Place place) { return place == Place::cpu ? 3 : 1; }

/// An emulated device takes its time.
inline std::vector<std::uint64_t> batches(Place place) {
  if (place == Place::emulated) return {2, 3};
  return {1, 2, 3, 4, 5, 6, 7, 8, 9};
}

}  // namespace shampoo::test
