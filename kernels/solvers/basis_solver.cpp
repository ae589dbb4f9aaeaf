// SPDX-License-Identifier: Apache-2.0
#include "kernels/solvers/basis_solver.h"

#include <algorithm>

#include "kernels/solvers/eigen_root.h"

namespace shampoo::kernels {

namespace {

// What the dense matrices of the workspace hold.
constexpr int a = 0, q = 1, x = 2, other = 3;
constexpr int matrices = 4;

}  // namespace

BasisSolver::BasisSolver(Backend& backend, Type arithmetic, const BasisMethod& method,
                         double trace_exponent)
    : FactorSolver(backend, arithmetic, matrices),
      method_(method),
      trace_exponent_(trace_exponent) {
  const auto* const eigh = std::get_if<Eigh>(&method);
  if (eigh == nullptr || eigh->tolerance > 0)
    attempts_.push_back({.outcome = Outcome::computed,
                         .type = arithmetic_,
                         .method = eigh == nullptr ? Method::iterate : Method::keep});
  add_decompositions(eigh == nullptr);
}

void BasisSolver::reserve(StagedArrays& staged, std::span<const RootJob> all) {
  FactorSolver::reserve(staged, all);
  bases_.reserve(all.size());
}

std::span<const std::int32_t> BasisSolver::solve_chunk(const Attempt& how) {
  load(how);
  if (how.method == Method::decompose) return decompose(how);
  load_bases();
  return how.method == Method::keep ? keep() : iterate(std::get<Qr>(method_));
}

void BasisSolver::load(const Attempt& how) {
  EigenRoot damped{.options = eigen_of(method_), .trace_exponent = trace_exponent_};
  if (how.jittered) damped.jitter = machine_epsilon(how.type);
  load_damped(workspace_, a, damped);
}

std::span<const BasisBatch> BasisSolver::bases() {
  bases_.clear();
  for (const FactorBatch& batch : workspace_.pairs()) {
    const auto first = static_cast<std::size_t>(batch.first);
    const bool has_values = table_.values().size() != 0;
    bases_.push_back({arithmetic_, batch.side, batch.count, batch.first,
                      table_.bases().data() + first,
                      has_values ? table_.values().data() + first : nullptr});
  }
  return bases_;
}

void BasisSolver::load_bases() { backend_.load_bases(bases(), workspace_.matrix(q)); }

std::span<const std::int32_t> BasisSolver::store(int basis) {
  backend_.store_bases(workspace_.matrix(basis), bases(),
                       static_cast<std::int32_t*>(workspace_.failed.data()));
  return workspace_.download_flags();
}

std::span<const std::int32_t> BasisSolver::decompose(const Attempt& how) {
  // A = Q^T L Q
  backend_.eigh(workspace_.matrix(a), how.eigensolver,
                static_cast<std::int32_t*>(workspace_.failed.data()));
  return store(a);
}

bool BasisSolver::any_differs(double tolerance) {
  SolverWorkspace& w = workspace_;
  backend_.multiply_transposed(w.matrix(x), w.matrix(q), w.matrix(other));
  const std::span<const double> norms = w.measure(other, Measure::frobenius);
  for (const std::size_t row : w.rows()) w.errors_before[row] = norms[row];
  const std::span<const double> rests = w.measure(other, Measure::off_diagonal);
  bool any = false;
  for (const std::size_t row : w.rows()) {
    const bool good = rests[row] <= tolerance * w.errors_before[row];
    w.flags[row] = good ? 0 : 1;
    any = any || !good;
  }
  return any;
}

/// A basis is kept where Q A Q^T is nearly diagonal [Eschenhagen 2025]. Where eigenvalues are
/// stored, its rows are sorted by their new ones.
std::span<const std::int32_t> BasisSolver::keep() {
  SolverWorkspace& w = workspace_;
  backend_.multiply(w.matrix(q), w.matrix(a), w.matrix(x), nullptr);
  any_differs(std::get<Eigh>(method_).tolerance);
  w.upload_flags();
  if (table_.values().size() == 0) return w.download_flags();
  backend_.sort_basis(w.matrix(a), w.matrix(x), w.matrix(q), w.matrix(other));
  return store(other);
}

/// Q <- rows of Q A made orthonormal, until Q A Q^T is nearly diagonal; without a tolerance in one
/// call.
std::span<const std::int32_t> BasisSolver::iterate(const Qr& qr) {
  SolverWorkspace& w = workspace_;
  const int at_once = qr.tolerance > 0 ? 1 : qr.max_iterations;
  for (int i = 0; i < qr.max_iterations; i += at_once) {
    backend_.multiply(w.matrix(q), w.matrix(a), w.matrix(x), nullptr);
    const std::uint8_t* active = nullptr;
    if (qr.tolerance > 0) {
      if (!any_differs(qr.tolerance)) break;
      for (const std::size_t row : w.rows()) w.active[row] = w.flags[row] != 0;
      w.upload_scalars();
      active = w.active.data();
    }
    backend_.iterate_orthogonally(w.matrix(x), w.matrix(a), w.matrix(q), at_once, active);
  }
  backend_.sort_basis(w.matrix(a), w.matrix(x), w.matrix(q), w.matrix(other));
  for (const std::size_t row : w.rows()) w.flags[row] = 0;
  w.upload_flags();
  return store(other);
}

}  // namespace shampoo::kernels
