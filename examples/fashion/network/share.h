// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fashion {

/// A contiguous part of a list.
struct Share {
  int first;
  int count;
};

/// What rank `rank` of `ranks` takes of `total` things: the shares follow each other, cover all of
/// them once, and differ in size by one at most.
inline Share share(int total, int rank, int ranks) {
  const auto begin = [&](std::int64_t r) { return static_cast<int>(r * total / ranks); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

}  // namespace fashion
