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

  explicit Workspace(Device& device) : device_(device) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void reserve(std::span<const Stack> stacks, Type arithmetic, const SolverCalls& calls);
  void reserve_orthogonalization(std::span<const Stack> stacks, std::span<const PolarPlan> plans,
                                 Type arithmetic);

  // These throw std::logic_error if reserve() got less, but for polar_norms() and polar(), whose
  // callers have reserved for the same stacks.
  /// As long as the flat slots of the stacks, and right before second_dense().
  void* dense(std::span<const Stack> stacks, Type arithmetic);
  /// Another one.
  void* second_dense(std::span<const Stack> stacks, Type arithmetic);
  /// dense_root_bytes() of every stack.
  void* roots(std::span<const Stack> stacks, Type arithmetic);
  double* partials();     ///< `rows` of them
  double* numbers();      ///< `numbers_of_row` for each of `rows`
  std::int32_t* flags();  ///< `rows` of them
  /// For three matrices of this side in float64 and the eigenvalues of one.
  double* eigen(std::int64_t side);
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
  void* address(Part& part);
  template <typename Body>
  void for_each_part(const Body& body) const;

  Device& device_;
  Part dense_, roots_, rows_, eigen_, polar_norms_, polar_;
  std::vector<Part> outgrown_;  ///< captured
};

}  // namespace shampoo::kernels::cuda
