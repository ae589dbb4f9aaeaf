// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "kernels/eigenbasis.h"
#include "kernels/elementwise.h"
#include "kernels/factor_algebra.h"
#include "kernels/matrix_solver.h"
#include "kernels/memory.h"
#include "kernels/orthogonalization.h"
#include "kernels/step_guard.h"

namespace shampoo::kernels {

/// A shampoo::Backend with its kernels.
///
/// Every member function is asynchronous and runs in call order, behind the work that the caller
/// has queued on the backend's stream; only what says so waits. Results of one block or matrix have
/// the same bits whatever else is in the call and on any number of threads. After reserve() no call
/// allocates. Calls of one backend are not concurrent.
class Backend : public Memory,
                public Elementwise,
                public FactorAlgebra,
                public MatrixSolver,
                public Eigenbasis,
                public Orthogonalization,
                public StepGuard {
 public:
  /// True if products are so much faster than decompositions that Automatic selects Minimax in
  /// float32.
  virtual bool prefers_products() const = 0;

  /// True if tridiagonal_root() is there: on the host.
  virtual bool has_tridiagonal_roots() const = 0;

  /// True if precondition_and_update() and orthogonalize_and_update() are there: on the host.
  virtual bool has_block_passes() const = 0;

  /// filter(), precondition() and update() with the same bits, block after block: what a block
  /// reads is fetched while another is multiplied, and P of one block per thread is in scratch
  /// memory, not in the passes' `direction`. The stacks have all blocks of the table; `present`
  /// lists, for each, those whose mode is not `absent`, as the modes say too. `direction_norms` and
  /// gradients.grafting_norms are the arrays that `update` reads; gradients.direction_norms is
  /// null. Throws std::logic_error where has_block_passes() is false.
  virtual void precondition_and_update(const PassContext& context, const GradientPass& gradients,
                                       std::span<const Stack> stacks,
                                       std::span<const Selection> present, double* direction_norms,
                                       const UpdatePass& update);

  /// Allocates all scratch memory that orthogonalize_and_update() with these stacks will need.
  virtual void reserve_orthogonalization_and_update(std::span<const Stack> stacks,
                                                    std::span<const PolarPlan> plans,
                                                    Type arithmetic);

  /// filter(), orthogonalize() and update() with the same bits, block after block, without grafting
  /// or second moments. The stacks have all blocks of the table; `selected` lists, for each, those
  /// that are not `absent`, which are all `preconditioned`. F and P are in scratch memory: panels
  /// where the plan is `on_gram`, else the whole block, once per thread. `direction_norms` is the
  /// array that `update` reads, and gets |P|^2 or, where the plan is `on_gram`, an upper bound but
  /// for rounding, which is finite only if P is. Throws std::logic_error where has_block_passes()
  /// is false.
  virtual void orthogonalize_and_update(const PassContext& context, const GradientPass& gradients,
                                        std::span<const Stack> stacks,
                                        std::span<const Selection> selected,
                                        std::span<const PolarPlan> plans, double* direction_norms,
                                        const UpdatePass& update);

  /// Bytes of dense matrices, of which the largest has `largest`, that a solver works through at a
  /// time: enough to keep the backend busy, and of small ones no more than its caches hold. Solvers
  /// have a few such sets.
  virtual std::size_t chunk_bytes(std::size_t largest) const = 0;

  /// Arrays as long as the flat slots of the stacks that a call of FactorAlgebra, Eigenbasis or
  /// Orthogonalization may need as scratch memory.
  virtual int scratch_directions() const { return 0; }

  /// Allocates all scratch memory that calls with these stacks, and of solvers, will ever need.
  virtual void reserve(std::span<const Stack> stacks, Type arithmetic,
                       const SolverCalls& calls) = 0;
};

/// The kernels of a backend: each one is a kernels::Backend.
inline Backend& kernels_of(shampoo::Backend& backend) { return static_cast<Backend&>(backend); }

}  // namespace shampoo::kernels
