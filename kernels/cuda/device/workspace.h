// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/device/device.h"

namespace shampoo::kernels::cuda {

/// Scratch memory of a backend, in the device's memory. It only grows.
class Workspace {
 public:
  /// Matrices, or parts of matrices, that solver kernels with flags or partial sums take at once.
  static constexpr std::int64_t rows = 65536;

  explicit Workspace(Device& device) : device_(device) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void reserve(std::span<const Stack> stacks, Type arithmetic, const SolverCalls& calls);
  void reserve_orthogonalization(std::span<const Stack> stacks, std::span<const PolarPlan> plans,
                                 Type arithmetic);

  // These throw std::logic_error if reserve() got less.
  /// As long as the flat slots of the stacks.
  void* dense(std::span<const Stack> stacks, Type arithmetic) const;
  /// Another one, for stacks with eigenbases or whitened factors.
  void* second_dense(std::span<const Stack> stacks, Type arithmetic) const;
  double* partials() const;     ///< `rows` of them
  double* numbers() const;      ///< 4 `rows` of them
  std::int32_t* flags() const;  ///< `rows` of them
  /// For this many matrices of a side at a time, at least one.
  void* panels() const { return panels_.memory; }
  std::int64_t panel_matrices(std::int64_t side, bool has_low) const;
  /// Squared norms of all blocks that are orthogonalised.
  double* polar_norms() const;
  /// For two square matrices of each block of a chunk, or, of decompositions, for one matrix, its
  /// eigenvalues and its flag.
  void* polar() const { return polar_.memory; }

  std::size_t bytes() const;

 private:
  struct Part {
    std::size_t bytes = 0;
    void* memory = nullptr;
  };
  void grow(Part& part, std::size_t bytes);

  Device& device_;
  Part dense_, panels_, rows_, polar_norms_, polar_;
};

}  // namespace shampoo::kernels::cuda
