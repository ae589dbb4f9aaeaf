// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/solvers/factor_solver.h"
#include "kernels/solvers/solver.h"

namespace shampoo::kernels {

struct MinimaxPlan;
struct TridiagonalPlan;

/// The solver chosen by Automatic for jobs with these exponents, or 1 / p with p <= 64; other
/// solvers are returned as they are. Throws std::invalid_argument for one that the backend has not.
Solver resolved(const Solver& solver, const Backend& backend, Type arithmetic,
                std::span<const double> exponents);

/// Inverse roots (A + epsilon I)^-exponent of factors: the preconditioners of Shampoo
/// [Gupta 2018, Algorithms 1 and 2].
class InverseRoot final : public FactorSolver {
 public:
  /// `trace_exponent`: A is first divided by trace(A)^trace_exponent; 0: it is not.
  InverseRoot(Backend& backend, Type arithmetic, const Solver& solver, double trace_exponent);
  ~InverseRoot() override;

  void reserve(StagedArrays& staged, std::span<const RootJob> all) override;
  bool waits() const override;

 private:
  std::span<const std::int32_t> solve_chunk(const Attempt& how) override;
  void enqueue_products(Rows rows, const std::int32_t* proceed) override;

  Solver solver_;
  double trace_exponent_;
  std::vector<MinimaxPlan> plans_;
  std::vector<TridiagonalPlan> tridiagonal_plans_;
};

}  // namespace shampoo::kernels
