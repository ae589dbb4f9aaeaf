// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/solvers/inverse_root.h"
#include "kernels/staged_array.h"

namespace shampoo::test {

/// An InverseRoot for these jobs, what it stages, and its backend's scratch memory.
class RootSolver {
 public:
  RootSolver(kernels::Backend& backend, Type arithmetic, const Solver& solver,
             double trace_exponent, std::span<const kernels::RootJob> all)
      : backend_(backend), staged_(backend), roots_(backend, arithmetic, solver, trace_exponent) {
    roots_.reserve(staged_, all);
    staged_.allocate();
    backend_.reserve(stacks_of(all), arithmetic, roots_.calls());
  }

  /// What an optimizer reserves scratch memory for: stacks of all factors of a side.
  static std::vector<kernels::Stack> stacks_of(std::span<const kernels::RootJob> jobs) {
    std::map<std::int64_t, kernels::Stack> stacks;
    for (const kernels::RootJob& job : jobs) {
      kernels::Stack& stack = stacks[job.side];
      stack.extent = {job.side};
      stack.stride = job.side;
      stack.factors = {job.pair};
      ++stack.count;
    }
    std::vector<kernels::Stack> all;
    for (auto& [side, stack] : stacks) all.push_back(std::move(stack));
    return all;
  }

  /// These jobs are the ones of the next enqueue().
  void place(std::span<const kernels::RootJob> jobs) {
    roots_.place(jobs);
    staged_.upload();
  }

  /// Computes the roots of some of the jobs. Waits.
  void solve(std::span<kernels::RootJob> jobs, const std::int32_t* proceed = nullptr) {
    place(jobs);
    roots_.enqueue(kernels::FactorSolver::Rows::placed, proceed);
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
