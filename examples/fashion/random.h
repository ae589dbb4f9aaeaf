// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace fashion {

/// Random numbers that are the same on every machine and with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }

  /// The numbers 0 ... count - 1 in random order.
  std::vector<int> permutation(int count) {
    std::vector<int> order(count);
    for (int i = 0; i < count; ++i) {
      const int j = static_cast<int>(uniform() * (i + 1));
      order[i] = order[j];
      order[j] = i;
    }
    return order;
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace fashion
