// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/tridiagonal_root.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/solvers/partial_fractions.h"

namespace shampoo::kernels {

namespace {

// What the dense matrices of the workspace hold.
constexpr int a = 0, x = 1;

/// The reduction to T moves eigenvalues by a few roundings, 2^-24, of the largest one; half the
/// shift has to stay above that.
constexpr double most_kappa_in_float32 = 0x1p20;

/// Relative error of a root in exact arithmetic.
double tolerance_of(Type arithmetic) { return arithmetic == Type::float64 ? 1e-14 : 1e-6; }

}  // namespace

TridiagonalPlan plan_tridiagonal(double exponent, const Tridiagonal& options, Type arithmetic) {
  const double kappa_max = arithmetic == Type::float32
                               ? std::min(options.kappa_max, most_kappa_in_float32)
                               : options.kappa_max;
  const double kappa = 2 * (kappa_max + 1);  // see TridiagonalRoot
  return {.exponent = exponent,
          .kappa_max = kappa_max,
          .fractions = partial_fractions(exponent, kappa, tolerance_of(arithmetic))};
}

void MatrixSolver::tridiagonal_root(std::span<const SquareMatrixBatch>, const TridiagonalRoot&,
                                    std::span<const SquareMatrixBatch>, std::int32_t*) {
  throw std::logic_error("tridiagonal_root: this backend has none");
}

std::span<const std::int32_t> tridiagonal_root(SolverWorkspace& workspace,
                                               const TridiagonalPlan& plan, double trace_exponent) {
  Backend& backend = workspace.backend();
  auto* const sizes = static_cast<double*>(workspace.sizes.data());
  workspace.unpack_factors(a, {.floors = workspace.table().epsilons().data(),
                               .trace_exponent = trace_exponent,
                               .sizes = sizes});
  backend.tridiagonal_root(workspace.matrix(a),
                           {.fractions = plan.fractions,
                            .kappa_max = plan.kappa_max,
                            .epsilons = workspace.table().epsilons().data(),
                            .scales = sizes,
                            .clamped = static_cast<double*>(workspace.clamped.data())},
                           workspace.matrix(x),
                           static_cast<std::int32_t*>(workspace.failed.data()));
  return workspace.pack_roots_and_wait(x, {.scales = sizes, .exponent = -plan.exponent});
}

}  // namespace shampoo::kernels
