// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/device/device.h"

namespace shampoo::kernels::cuda {

/// Scratch memory of a backend, in the device's memory. It only grows. What graphs may use stays
/// until the end: memory that was asked for in a capture is kept, beside what takes its place.
class Workspace {
 public:
  /// Matrices, or parts of matrices, that solver kernels with flags or partial sums take at once.
  static constexpr std::int64_t rows = 65536;
  static constexpr std::int64_t numbers_of_row = 3;

  /// Room for sums of products of symmetric matrices, in float32.
  class Sums {
   public:
    Sums() = default;
    Sums(void* memory, std::size_t bytes) : memory_(static_cast<char*>(memory)), bytes_(bytes) {}

    std::int64_t fitting(std::int64_t side) const;
    /// At most as many as are fitting(), at a multiple of 256 bytes.
    void* take(std::int64_t side, std::int64_t count);

   private:
    char* memory_ = nullptr;
    std::size_t bytes_ = 0;  ///< that are left
  };

  explicit Workspace(Device& device) : device_(device) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void reserve(std::span<const Stack> stacks, Type arithmetic, const SolverCalls& calls);
  void reserve_orthogonalization(std::span<const Stack> stacks, std::span<const PolarPlan> plans,
                                 Type arithmetic);

  // These throw std::logic_error if reserve() got less.
  /// As long as the flat slots of the stacks, and right before second_dense().
  void* dense(std::span<const Stack> stacks, Type arithmetic);
  /// Another one.
  void* second_dense(std::span<const Stack> stacks, Type arithmetic);
  /// dense_root_bytes() of every stack.
  void* roots(std::span<const Stack> stacks, Type arithmetic);
  double* partials();     ///< `rows` of them
  double* numbers();      ///< `numbers_of_row` for each of `rows`
  std::int32_t* flags();  ///< `rows` of them
  /// For a matrix of this side in float64 and its eigenvalues.
  double* eigen(std::int64_t side);
  /// All of it, which holds at least one matrix of a side. It lies behind polar_dense(), and may be
  /// the memory of dense() and second_dense().
  Sums sums(std::int64_t side);
  /// As long as the flat slots of stacks that are orthogonalised; the memory of dense().
  void* polar_dense(std::span<const Stack> stacks, Type arithmetic);
  /// Squared norms of all blocks that are orthogonalised.
  double* polar_norms();
  /// For two square matrices of each block of a chunk, or, of decompositions, for one matrix, its
  /// eigenvalues and its flag.
  void* polar() { return address(polar_); }

  std::size_t bytes() const;

 private:
  struct Part {
    std::size_t bytes = 0;
    void* memory = nullptr;
    bool captured = false;  ///< a graph may contain its address
  };
  void grow(Part& part, std::size_t bytes);
  /// Nothing changes if there is not enough memory.
  void grow_dense(std::size_t bytes, std::size_t polar_bytes, std::size_t sum_bytes);
  void* address(Part& part);
  template <typename Body>
  void for_each_part(const Body& body) const;

  Device& device_;
  Part dense_, roots_, rows_, eigen_, polar_norms_, polar_;  ///< sums are the end of dense_
  std::size_t sum_bytes_ = 0, polar_dense_bytes_ = 0;
  std::vector<Part> outgrown_;  ///< captured
};

}  // namespace shampoo::kernels::cuda
