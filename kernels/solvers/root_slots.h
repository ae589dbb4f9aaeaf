// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/columns.h"
#include "kernels/solvers/solver_workspace.h"

namespace shampoo::kernels {

/// Rows for the jobs of a solver that never waits, in columns that are uploaded with everything
/// else that a step reads. All jobs of one exponent and side have their rows next to each other:
/// those that are placed fill them from the front, the others do nothing. So a step whose launches
/// are fixed, because it was captured, serves any selection of jobs.
class RootSlots {
 public:
  /// Jobs of one exponent and side.
  struct Rows {
    double exponent = 0;
    std::int64_t side = 0;
    std::size_t first = 0, size = 0;
    std::size_t placed = 0;  ///< of these
  };

  /// For every job that there can be.
  void reserve(Columns& columns, std::span<const RootJob> all);
  /// Takes over the jobs of the next step. Some of `all`, with other numbers.
  void place(std::span<const RootJob> jobs);

  /// By exponent, then costliest first.
  std::span<const Rows> rows() const { return rows_; }
  std::size_t size() const { return row_of_.size(); }
  /// Row of a placed job.
  std::size_t row(std::size_t job) const { return row_of_[job]; }

  // [backend], per row
  void* const* arrays() const { return arrays_.data(); }
  const double* scales() const { return scales_.data(); }
  const double* epsilons() const { return epsilons_.data(); }
  const std::uint8_t* active() const { return active_.data(); }

 private:
  Rows& rows_of(const RootJob& job);

  std::vector<Rows> rows_;
  std::vector<void*> any_;  ///< per row: what an array without a job is
  std::vector<std::size_t> row_of_;
  Column<void*> arrays_;
  Column<double> scales_, epsilons_;
  Column<std::uint8_t> active_;
};

}  // namespace shampoo::kernels
