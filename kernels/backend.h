// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "kernels/elementwise.h"
#include "kernels/factor_algebra.h"
#include "kernels/matrix_solver.h"
#include "kernels/memory.h"
#include "kernels/step_guard.h"

namespace shampoo {

namespace kernels {

/// Where arrays live and arithmetic runs: the host, or one stream of one GPU.
///
/// Every member function is asynchronous and runs in call order, behind the work that the caller
/// has queued on the backend's stream; only what says so waits. Results of one block or matrix have
/// the same bits whatever else is in the call and on any number of threads. After reserve() no call
/// allocates. Calls of one backend are not concurrent.
class Backend : public Memory,
                public Elementwise,
                public FactorAlgebra,
                public MatrixSolver,
                public StepGuard {
 public:
  /// Readable summary: device, threads, instruction set level, BLAS and its core type.
  virtual std::string description() const = 0;
  /// Everything that the bits of results depend on, for ranks and checkpoints to compare:
  /// instruction set level, BLAS and its core type.
  virtual std::string arithmetic() const = 0;
  /// True if products are so much faster than decompositions that Automatic selects Minimax in
  /// float32.
  virtual bool prefers_products() const = 0;

  /// Allocates all scratch memory that calls with these stacks, and of solvers, will ever need.
  virtual void reserve(std::span<const Stack> stacks, Type arithmetic,
                       const SolverCalls& calls) = 0;
};

}  // namespace kernels

using kernels::Backend;

}  // namespace shampoo
