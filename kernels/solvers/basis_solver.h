// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/solvers/factor_solver.h"
#include "kernels/solvers/solver.h"

namespace shampoo::kernels {

/// Eigenbases of factors, A = Q^T diag(l) Q with one eigenvector per row of Q, eigenvalues
/// ascending. By an eigendecomposition, or by orthogonal iteration from the stored bases
/// [Golub 2013, ch. 8.2], one QR decomposition each; what an iteration cannot compute is
/// decomposed. A basis that cannot be computed, with its eigenvalues, stays as it was.
class BasisSolver final : public FactorSolver {
 public:
  /// `trace_exponent`: A is first divided by trace(A)^trace_exponent; 0: it is not.
  BasisSolver(Backend& backend, Type arithmetic, const BasisMethod& method, double trace_exponent);

  void reserve(StagedArrays& staged, std::span<const RootJob> all) override;

 private:
  std::span<const std::int32_t> solve_chunk(const Attempt& how) override;
  std::span<const std::int32_t> decompose(const Attempt& how);
  std::span<const std::int32_t> keep();
  std::span<const std::int32_t> iterate(const Qr& qr);

  /// A <- the chunk's damped factors
  void load(const Attempt& how);
  void load_bases();
  /// Stores the bases in a matrix, and its values, where the chunk's flags are 0.
  std::span<const std::int32_t> store(int basis);
  /// flags <- 0 where sqrt(sum of squares off the diagonal of Q A Q^T) <= tolerance |Q A Q^T|,
  /// otherwise 1. X holds Q A. Waits.
  bool any_differs(double tolerance);
  std::span<const BasisBatch> bases();

  BasisMethod method_;
  double trace_exponent_;
  std::vector<BasisBatch> bases_;
};

}  // namespace shampoo::kernels
