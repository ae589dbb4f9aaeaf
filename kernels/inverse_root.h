// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/solver.h"
#include "kernels/solver_workspace.h"

namespace shampoo::kernels {

/// p / q in lowest terms.
struct Rational {
  int p = 0;
  int q = 1;
};

/// The fraction with 1 <= q <= 64 that equals `root` to within one rounding, if there is one.
std::optional<Rational> rational(double root);

/// (A + epsilon I)^-exponent for any number of factors, over the primitives of a backend.
class InverseRoot {
 public:
  /// `trace_exponent`: A is first divided by trace(A)^trace_exponent; 0: it is not.
  InverseRoot(Backend& backend, Type arithmetic, const Solver& solver, double trace_exponent);

  /// Gets the workspace for jobs of these sides, in any selection of them.
  void reserve(std::span<const std::int64_t> sides);

  /// Replaces the roots of all jobs that can be computed, and writes outcomes. Waits. A root that
  /// cannot be computed stays as it was.
  void solve(std::span<RootJob> jobs);

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
};

}  // namespace shampoo::kernels
