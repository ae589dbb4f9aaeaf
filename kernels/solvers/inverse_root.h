// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/solvers/root_table.h"
#include "kernels/solvers/solver.h"
#include "kernels/solvers/solver_workspace.h"

namespace shampoo::kernels {

struct MinimaxPlan;

/// The solver chosen by Automatic for jobs with these exponents, or 1 / p with p <= 64; other
/// solvers are returned as they are.
Solver resolved(const Solver& solver, const Backend& backend, Type arithmetic,
                std::span<const double> exponents);

/// Inverse roots (A + epsilon I)^-exponent of any number of factors: the preconditioners of Shampoo
/// [Gupta 2018, Algorithms 1 and 2].
///
/// Jobs are placed, uploaded with everything else that a step reads, enqueued and collected; the
/// same for every solver, recorded or not.
class InverseRoot {
 public:
  /// `trace_exponent`: A is first divided by trace(A)^trace_exponent; 0: it is not.
  InverseRoot(Backend& backend, Type arithmetic, const Solver& solver, double trace_exponent);
  ~InverseRoot();
  InverseRoot(const InverseRoot&) = delete;
  InverseRoot& operator=(const InverseRoot&) = delete;

  /// Allocates all memory that any selection of these jobs needs. What place() writes lies in
  /// `staged`, which the caller allocates and uploads, and which must outlive this. Once.
  void reserve(StagedArrays& staged, std::span<const RootJob> all);

  /// True if enqueue() waits for the backend, because the solver decides on the host. Such work
  /// cannot be recorded.
  bool waits() const;
  /// For the backend to reserve scratch memory for enqueue(). After reserve().
  SolverCalls calls() const;

  /// Writes the jobs of the next enqueue(): a subset of those reserved, with other numbers. The
  /// caller uploads `staged` afterwards. Does not wait.
  void place(std::span<const RootJob> jobs);

  /// Queues the roots of the placed jobs. A root that cannot be computed stays as it was. If
  /// `fixed` (only where waits() is false), the calls of the backend do not depend on which jobs
  /// are placed, and a recording of them works on the jobs placed before each replay. Changes
  /// nothing if *proceed ([backend]; null: 1) is 0 when it runs; where waits(), it is not read.
  void enqueue(bool fixed = false, const std::int32_t* proceed = nullptr);

  /// Writes outcomes into the jobs that were placed, in the same order, after the enqueued work is
  /// known to have run (by Backend::synchronize(), at least). Meaningless if *proceed was 0. Does
  /// not wait.
  void collect(std::span<RootJob> jobs) const;

  std::int64_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  /// One way of computing a root; the next is tried where it fails.
  struct Attempt {
    Outcome outcome;
    Type type;
    bool iterates = false;
    Eigensolver eigensolver = Eigensolver::divide_and_conquer;
    bool jittered = false;
  };

  void add_attempts();
  void enqueue_products(bool fixed, const std::int32_t* proceed);
  void solve_by_attempts();
  std::span<const std::int32_t> solve_chunk(const Attempt& how);
  const MinimaxPlan& plan_for(double exponent);

  Backend& backend_;
  Type arithmetic_;
  Solver solver_;
  double trace_exponent_;
  std::vector<Attempt> attempts_;
  std::vector<MinimaxPlan> plans_;
  RootTable table_;
  SolverWorkspace workspace_;
  std::vector<std::uint8_t> pending_;  ///< per row
  std::vector<Outcome> outcomes_;      ///< per row, where there is a root
  HostBuffer flags_, clamped_;         ///< per row
};

}  // namespace shampoo::kernels
