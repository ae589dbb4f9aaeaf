// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/rules/factor_layout.h"
#include "kernels/staged_array.h"

namespace shampoo::kernels {

/// Result of one root, in the order in which solvers are tried.
enum class Outcome : std::uint8_t {
  computed,        ///< computed by the requested solver
  by_eigenvalues,  ///< computed by an eigendecomposition, after an iteration diverged
  jittered,        ///< computed with a jittered diagonal
  in_float64,
  by_jacobi,  ///< computed by Jacobi rotations in float64
  failed      ///< failed; the old root was kept
};

/// One factor, and the root or eigenbasis to compute from it.
struct RootJob {
  void* pair = nullptr;  ///< [backend] see Stack::factors
  std::int64_t side = 0;
  /// Of the array; the same for all jobs of a solver.
  FactorLayout layout = FactorLayout::with_root;
  void* basis = nullptr;   ///< [backend] see BasisBatch; null for roots
  void* values = nullptr;  ///< [backend] eigenvalues; null where they are not kept
  double exponent = 0.25;  ///< the root is A^-exponent
  /// Usually the jobs of one phase are placed together, and no others with them.
  std::int64_t phase = 0;
  double epsilon = 0;
  double scale = 1;                     ///< A = scale * factor
  Outcome outcome = Outcome::computed;  ///< out
  /// out: number of eigenvalues clamped by a shift or floor; by Minimax and Tridiagonal: 1 if its
  /// relative shift was the larger one
  std::int64_t clamped = 0;
};

/// The jobs of a solver as a table that kernels read: one row for every job that there can be. Rows
/// of one exponent and side are adjacent. The jobs placed for a step fill them from the front, and
/// the other rows are inactive, so launches recorded once for some rows serve any selection of jobs
/// that these rows hold.
class RootTable {
 public:
  struct Row {
    double exponent = 0;
    std::int64_t side = 0;
    bool operator==(const Row&) const = default;
  };

  /// Adds the columns of the table, with one row for each of these jobs, to `staged`.
  void reserve(StagedArrays& staged, std::span<const RootJob> all);
  /// Writes the jobs of the next step: at most as many of every exponent and side as were reserved.
  /// Takes effect with the next upload.
  void place(std::span<const RootJob> jobs);

  /// By exponent, then by descending side.
  std::span<const Row> rows() const { return rows_; }
  std::size_t size() const { return rows_.size(); }
  /// Row of the i-th placed job.
  std::size_t row(std::size_t job) const { return row_of_[job]; }

  /// One flag per row: 1 for as many of every exponent and side as the phase with the most has.
  std::span<const std::uint8_t> usual() const { return usual_; }
  /// Whether the placed jobs need other rows, too.
  bool exceeds_usual() const { return exceeds_usual_; }

  FactorLayout layout() const { return layout_; }

  /// One number or flag per row: the host's span, and the backend's array by data().
  const StagedArray<void*>& arrays() const { return arrays_; }
  /// Those of placed jobs. Empty where none has a basis, or eigenvalues.
  const StagedArray<void*>& bases() const { return bases_; }
  const StagedArray<void*>& values() const { return values_; }
  const StagedArray<double>& scales() const { return scales_; }
  const StagedArray<double>& epsilons() const { return epsilons_; }
  const StagedArray<double>& exponents() const { return exponents_; }
  const StagedArray<std::uint8_t>& active() const { return active_; }

 private:
  void choose_usual(std::span<const RootJob> order);

  std::vector<Row> rows_;
  std::vector<void*> any_;           ///< per row: the pair array where no job is placed
  std::vector<std::size_t> row_of_;  ///< per placed job
  std::vector<std::size_t> placed_;  ///< per first row of an exponent and side: jobs placed
  std::vector<std::uint8_t> usual_;  ///< per row
  bool exceeds_usual_ = false;
  FactorLayout layout_ = FactorLayout::with_root;
  StagedArray<void*> arrays_, bases_, values_;
  StagedArray<double> scales_, epsilons_, exponents_;
  StagedArray<std::uint8_t> active_;
};

}  // namespace shampoo::kernels
