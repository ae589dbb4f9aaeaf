// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/solvers/inverse_root.h"
#include "kernels/staged_array.h"

namespace shampoo::test {

/// An InverseRoot for these jobs, and what it stages.
class RootSolver {
 public:
  RootSolver(kernels::Backend& backend, Type arithmetic, const Solver& solver,
             double trace_exponent, std::span<const kernels::RootJob> all)
      : backend_(backend), staged_(backend), roots_(backend, arithmetic, solver, trace_exponent) {
    roots_.reserve(staged_, all);
    staged_.allocate();
  }

  /// These jobs are the ones of the next enqueue().
  void place(std::span<const kernels::RootJob> jobs) {
    roots_.place(jobs);
    staged_.upload();
  }

  /// Computes the roots of some of the jobs. Waits.
  void solve(std::span<kernels::RootJob> jobs, const std::int32_t* proceed = nullptr) {
    place(jobs);
    roots_.enqueue(false, proceed);
    backend_.synchronize();
    roots_.collect(jobs);
  }

  kernels::InverseRoot& roots() { return roots_; }

 private:
  kernels::Backend& backend_;
  kernels::StagedArrays staged_;
  kernels::InverseRoot roots_;
};

}  // namespace shampoo::test
