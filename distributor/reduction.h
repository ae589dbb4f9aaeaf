// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "distributor/communicator.h"

namespace shampoo {

/// sum <- (part_0 + part_1 + ... + part_{n-1}) / divisor, elementwise and in this order, for n
/// parts of `count` elements, back to back. Computed in float64 for float64, otherwise in float32,
/// and rounded once. `sum` may alias the first part.
void ordered_sum(const void* parts, int n, std::int64_t count, Type type, double divisor,
                 void* sum);

/// Arithmetic and scratch memory in the memory space of a communicator, ordered with a stream.
/// Pending collectives share its ownership.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// A reduction uses the scratch buffers on this stream between these calls, behind earlier ones
  /// on whatever stream.
  virtual void begin(StreamRef /*stream*/) {}
  virtual void end(StreamRef /*stream*/) {}

  /// Two scratch buffers; growing one invalidates its contents.
  virtual char* packed(std::int64_t bytes) = 0;
  virtual char* received(std::int64_t bytes) = 0;

  virtual void copy(void* to, const void* from, std::int64_t bytes, StreamRef stream) = 0;
  /// See shampoo::ordered_sum().
  virtual void ordered_sum(const void* parts, int n, std::int64_t count, Type type, double divisor,
                           void* sum, StreamRef stream) = 0;
};

std::shared_ptr<Reducer> make_host_reducer();

}  // namespace shampoo
