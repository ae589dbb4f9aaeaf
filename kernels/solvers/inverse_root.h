// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/solvers/root_slots.h"
#include "kernels/solvers/solver.h"
#include "kernels/solvers/solver_workspace.h"

namespace shampoo::kernels {

struct MinimaxPlan;

/// p / q in lowest terms.
struct Rational {
  int p = 0;
  int q = 1;
};

/// The fraction with 1 <= q <= 64 that equals `root` to within one rounding, if there is one.
std::optional<Rational> rational(double root);

/// The fraction p / q = 1 / exponent that Minimax works with, if it takes the exponent.
std::optional<Rational> minimax_root(double exponent);

/// What Automatic stands for, if jobs may have these exponents beside 1 / p with p <= 64; other
/// solvers are themselves.
Solver resolved(const Solver& solver, const Backend& backend, Type arithmetic,
                std::span<const double> exponents);

/// (A + epsilon I)^-exponent for any number of factors, over the primitives of a backend.
class InverseRoot {
 public:
  /// `trace_exponent`: A is first divided by trace(A)^trace_exponent; 0: it is not.
  InverseRoot(Backend& backend, Type arithmetic, const Solver& solver, double trace_exponent);
  ~InverseRoot();

  /// Gets the workspace for jobs of these sides, in any selection of them, and prepares for these
  /// exponents; others cost time and memory when they are first met.
  void reserve(std::span<const std::int64_t> sides, std::span<const double> exponents = {});

  /// Whether solve() waits for the backend: the solver has steps on the host.
  bool waits() const;

  /// What solve() calls, with sides up to this.
  SolverCalls calls(std::int64_t largest_side) const;

  /// Replaces the roots of all jobs that can be computed; the others stay as they were. Where
  /// waits(), outcomes are written and `proceed` is not read. Otherwise the work is only queued,
  /// and changes nothing if *proceed ([backend]; null: 1) is 0 when it runs.
  void solve(std::span<RootJob> jobs, const std::int32_t* proceed = nullptr);

  /// Writes the outcomes of the last solve(), which must have had the same jobs, and of whose work
  /// the host must know that it has run: by Backend::synchronize(), at least. They mean nothing if
  /// *proceed was 0. Does nothing where waits(). Does not wait.
  void collect(std::span<RootJob> jobs) const;

  // The same in parts, for solvers that do not wait: what changes from call to call lies in columns
  // that the caller uploads.

  /// After reserve(), for all jobs that there can be.
  void reserve_slots(Columns& columns, std::span<const RootJob> all);
  /// Takes over some of these jobs, for as long as they are not placed again.
  void place(std::span<const RootJob> jobs);
  /// Queues the roots of the placed jobs. If `fixed`, the calls of the backend do not depend on
  /// which jobs are placed. Where that was recorded, it works on the jobs placed before each
  /// replay.
  void queue_placed(bool fixed, const std::int32_t* proceed);
  /// Like collect().
  void collect_placed(std::span<RootJob> jobs) const;

  std::int64_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  struct Attempt {
    Outcome outcome;
    Type type;
    Eigensolver eigensolver;
    bool jittered;
  };

  void add_attempts();
  void decompose(const Attempt& how, std::span<RootJob> jobs);
  void load_for(const Attempt& how, std::size_t count);
  void iterate(std::span<RootJob> jobs);
  void queue(std::span<RootJob> jobs, const std::int32_t* proceed);
  const MinimaxPlan& plan_for(double exponent);
  /// How many jobs at the front of `order` have one exponent.
  std::size_t alike(std::span<const int> order, std::span<const RootJob> jobs) const;
  /// Leaves in pending_ the jobs that have no root yet.
  void record(std::span<const std::int32_t> flags, Outcome outcome, std::span<RootJob> jobs);

  Type arithmetic_;
  Solver solver_;
  double trace_exponent_;
  Eigen eigen_;                    ///< the solver, or what is tried when an iteration diverged
  std::optional<double> epsilon_;  ///< in place of that of the jobs
  std::vector<Attempt> attempts_;
  SolverWorkspace workspace_;
  std::vector<int> pending_, later_;
  std::vector<double> raised_;
  std::vector<MinimaxPlan> plans_;
  RootSlots slots_;
  HostBuffer slot_flags_, slot_raised_;  ///< what came of the slots
};

}  // namespace shampoo::kernels
