// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/solvers/root_table.h"
#include "kernels/solvers/solver_workspace.h"

namespace shampoo::kernels {

/// Inverse roots or eigenbases of any number of factors.
///
/// Jobs are placed, uploaded with everything else that a step reads, enqueued and collected; the
/// same for every solver, recorded or not. What one method cannot compute, the next one tries; what
/// none can compute stays as it was.
class FactorSolver {
 public:
  virtual ~FactorSolver() = default;
  FactorSolver(const FactorSolver&) = delete;
  FactorSolver& operator=(const FactorSolver&) = delete;

  /// Has its dense matrices in this memory, which must outlive it. Before reserve().
  void share(ScratchMemory& memory) { workspace_.share(memory); }
  /// Allocates all memory that any selection of these jobs needs. What place() writes lies in
  /// `staged`, which the caller allocates and uploads, and which must outlive this. Once.
  virtual void reserve(StagedArrays& staged, std::span<const RootJob> all);

  /// True if enqueue() waits for the backend, because the solver decides on the host. Such work
  /// cannot be recorded.
  virtual bool waits() const { return true; }
  /// For the backend to reserve scratch memory for enqueue(). After reserve().
  SolverCalls calls() const;

  /// Writes the jobs of the next enqueue(): a subset of those reserved, with other numbers. The
  /// caller uploads `staged` afterwards. Does not wait.
  void place(std::span<const RootJob> jobs) { table_.place(jobs); }

  /// True if the placed jobs are more of one exponent and side than any phase has.
  bool exceeds_usual() const { return table_.exceeds_usual(); }

  /// Rows of the table that an enqueue() works on.
  enum class Rows : std::uint8_t {
    placed,  ///< those of the placed jobs
    usual,   ///< as many as the placed jobs need at most while exceeds_usual() is false
    all
  };
  /// Queues the placed jobs. With other rows than theirs (only where waits() is false), the calls
  /// of the backend do not depend on which jobs are placed, and a recording of them works on the
  /// jobs placed before each replay. Changes nothing if *proceed ([backend]; null: 1) is 0 when it
  /// runs; where waits(), it is not read.
  void enqueue(Rows rows = Rows::placed, const std::int32_t* proceed = nullptr);

  /// Writes outcomes into the jobs that were placed, in the same order, after the enqueued work is
  /// known to have run (by Backend::synchronize(), at least). Meaningless if *proceed was 0. Does
  /// not wait.
  void collect(std::span<RootJob> jobs) const;

  /// Without matrices that are shared.
  std::int64_t workspace_bytes() const { return workspace_.bytes(); }

 protected:
  enum class Method : std::uint8_t {
    keep,       ///< an eigenbasis that is still good
    iterate,    ///< the solver's own iteration
    reduce,     ///< to a tridiagonal matrix, whose root is a sum of partial fractions
    decompose,  ///< an eigendecomposition
  };
  /// One way of computing a result; the next is tried where it fails.
  struct Attempt {
    Outcome outcome;
    Type type;
    Method method = Method::decompose;
    Eigensolver eigensolver = Eigensolver::divide_and_conquer;
    bool jittered = false;
  };

  FactorSolver(Backend& backend, Type arithmetic, int matrices)
      : backend_(backend), arithmetic_(arithmetic), workspace_(backend, arithmetic, matrices) {}

  /// Decompositions, from the fastest to the most robust one, after what was added before.
  void add_decompositions(bool iterates);

  /// Computes the workspace's chunk; returns one flag per row, 0 where a result was stored. Waits.
  virtual std::span<const std::int32_t> solve_chunk(const Attempt& how) = 0;
  /// Where waits() is false.
  virtual void enqueue_products(Rows /*rows*/, const std::int32_t* /*proceed*/) {}

  Backend& backend_;
  Type arithmetic_;
  std::vector<Attempt> attempts_;
  RootTable table_;
  SolverWorkspace workspace_;

 private:
  void solve_by_attempts();

  std::vector<std::uint8_t> pending_;  ///< per row
  std::vector<Outcome> outcomes_;      ///< per row, where there is a result
  HostBuffer flags_, clamped_;         ///< per row
};

/// Machine epsilon of a type of computation.
double machine_epsilon(Type type);

}  // namespace shampoo::kernels
