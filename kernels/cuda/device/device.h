// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/cuda/launch/kernel.h"
#include "kernels/facets.h"
#include "kernels/types.h"

namespace shampoo::kernels::cuda {

/// Row-major matrices of one shape, `stride` elements apart. [device]
struct Matrices {
  const void* data = nullptr;
  Type type = Type::float32;
  std::int64_t row = 0;     ///< elements from one row to the next
  std::int64_t stride = 0;  ///< elements from one matrix to the next
  bool transposed = false;  ///< its transpose is meant
};

/// All elements of square matrices that lie one after the other.
inline Matrices dense(const SquareMatrixBatch& squares, bool transposed = false) {
  return {squares.data, squares.type, squares.side, squares.side * squares.side, transposed};
}

/// C <- alpha A B + beta D for `count` matrices, A rows x depth, B depth x columns, D laid out as
/// C. D is not read where beta is 0, and is C or does not overlap it. Sums are kept in float32, for
/// float64 in float64, and rounded to the type of C. The bits of a product do not depend on the
/// count.
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0, count = 0;
  Matrices a, b;
  void* c = nullptr;
  Type c_type = Type::float32;
  std::int64_t c_row = 0, c_stride = 0;
  double alpha = 1, beta = 0;
  const void* addend = nullptr;  ///< D; null: C
};

/// C <- A B, or with a transpose in place of A or B.
inline Product square_product(const SquareMatrixBatch& a, bool transposes_a,
                              const SquareMatrixBatch& b, bool transposes_b,
                              const SquareMatrixBatch& c) {
  const std::int64_t n = a.side;
  return {n, n,     n, a.count, dense(a, transposes_a), dense(b, transposes_b), c.data, c.type,
          n, n * n, 1, 0};
}

/// The eigendecomposition of a symmetric matrix, both triangles given. [device]
struct EigenProblem {
  std::int64_t side = 0;
  double* matrix = nullptr;        ///< in: A; out: row j of memory is the vector of value j
  double* values = nullptr;        ///< out: ascending
  std::int32_t* failed = nullptr;  ///< out: 0, or the library's code
};

/// Operations that the backend needs of a GPU. All calls but those that say so are queued on one
/// stream and return at once.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string description() const = 0;
  virtual std::string arithmetic() const = 0;
  virtual int index() const = 0;  ///< among the devices of this process
  virtual void* stream() const = 0;

  virtual void* allocate(std::size_t bytes) = 0;  ///< allocates 256-byte aligned memory, not zeroed
  virtual void release(void* memory) noexcept = 0;
  /// Returns what its pool holds and nobody uses to the system. Waits.
  virtual void trim() = 0;
  virtual void* allocate_host(std::size_t bytes) = 0;  ///< pinned
  virtual void release_host(void* memory) noexcept = 0;

  virtual void zero(void* memory, std::size_t bytes) = 0;
  virtual void upload(void* to, const void* from_host, std::size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;

  /// Scratch memory of its libraries, and the pool.
  virtual MemoryUse memory_use() const = 0;

  virtual std::unique_ptr<Mark> make_mark() = 0;
  virtual std::unique_ptr<Timeline> make_timeline(std::size_t points) = 0;
  /// True if all queued work is done.
  virtual bool is_idle() = 0;
  virtual void synchronize() = 0;  ///< waits
  /// True if calls are recorded into a graph instead of being queued.
  virtual bool is_capturing() const = 0;
  virtual void begin_range(const char* name) = 0;
  virtual void end_range() = 0;

  /// Runs `blocks` blocks of threads of a kernel; none for 0.
  virtual void launch(std::int64_t blocks, const Kernel& kernel) = 0;
  virtual void multiply(const Product& product) = 0;

  /// Gets what products need; those that have the key of one of these can then be captured. Their
  /// counts do not matter. May wait.
  virtual void reserve_products(std::span<const Product> products) = 0;
  /// Gets what decompositions of matrices of this side need. May wait.
  virtual void reserve_eigen(std::int64_t side) = 0;
  /// Waits for some sides and libraries.
  virtual void decompose(const EigenProblem& problem) = 0;
};

}  // namespace shampoo::kernels::cuda
