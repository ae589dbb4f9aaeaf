// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::test {

/// Requests for memory.
struct Allocations {
  std::int64_t heap = 0;    ///< malloc and its kin, operator new included
  std::int64_t mapped = 0;  ///< mmap; see AllocationCounter::sees_everything
  /// Part of `heap`: requests whose caller is code of OpenBLAS.
  std::int64_t in_blas = 0;

  std::int64_t total() const { return heap + mapped; }
  std::int64_t outside_blas() const { return total() - in_blas; }
  bool operator==(const Allocations&) const = default;
};

/// Counts, while it lives, every request for memory of all threads and of every library in the
/// process. One at a time.
class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  /// Requests since construction.
  Allocations count() const;

  /// False in a build with a sanitizer, whose hooks leave out mmap and some ways to the heap.
  static bool sees_everything();
};

}  // namespace shampoo::test
