// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distributor/communicator.h"

namespace shampoo {

/// sum <- (part_0 + part_1 + ... + part_{n-1}) / divisor, element by element, in this order, for n
/// parts of `count` numbers that lie back to back. Computed in float64 for float64 and in float32
/// for the others, and rounded once. `sum` may be the first part.
void sum_in_order(const void* parts, int n, std::int64_t count, Type type, double divisor,
                  void* sum);

/// Where a communicator computes sums: scratch memory of its kind, and arithmetic in order with a
/// stream. A pending collective keeps it.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// Two arrays that grow as needed and keep what they hold only until they do.
  virtual char* packed(std::int64_t bytes) = 0;
  virtual char* received(std::int64_t bytes) = 0;

  virtual void copy(void* to, const void* from, std::int64_t bytes, StreamRef stream) = 0;
  /// As the function.
  virtual void sum_in_order(const void* parts, int n, std::int64_t count, Type type, double divisor,
                            void* sum, StreamRef stream) = 0;
};

}  // namespace shampoo
