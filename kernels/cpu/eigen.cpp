// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/eigen.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/mode_products.h"
#include "kernels/cpu/solver_tasks.h"
#include "kernels/solvers/spectrum_rule.h"

namespace shampoo::kernels {

namespace {

// What LAPACK's divide and conquer asks for.
constexpr std::int64_t work_count(std::int64_t side) { return 1 + 6 * side + 2 * side * side; }
constexpr std::int64_t integer_count(std::int64_t side) { return 3 + 5 * side; }

/// In scratch memory, whose alignment is the same for every matrix of every call.
template <typename Real>
int divide_and_conquer(std::int64_t n, Real* a, Real* values, Scratch& scratch) {
  Real* const q = scratch.take<Real>(n * n);
  Real* const l = scratch.take<Real>(n);
  Real* const work = scratch.take<Real>(work_count(n));
  int* const integers = scratch.take<int>(integer_count(n));
  std::copy(a, a + n * n, q);
  const int info = blas::syevd(static_cast<int>(n), q, l, work, static_cast<int>(work_count(n)),
                               integers, static_cast<int>(integer_count(n)));
  if (info != 0) return info;
  // LAPACK's columns are our rows.
  std::copy(q, q + n * n, a);
  std::copy(l, l + n, values);
  return 0;
}

template <typename Real>
std::int32_t decompose(const SquareMatrixBatch& group, std::int64_t member, Eigensolver solver,
                       Scratch& scratch) {
  const std::int64_t n = group.side;
  Real* const a = matrix_of<Real>(group, member);
  Real* const values = values_of<Real>(group, member);
  if (!is_finite(a, n * n)) return non_finite_root;
  if (solver == Eigensolver::jacobi) return jacobi(n, a, values, scratch.take<Real>(n * n)) ? 0 : 1;
  return divide_and_conquer(n, a, values, scratch);
}

/// X <- B^T B with B's rows sqrt(values_j) q_j
template <typename Real>
void reconstruct_matrix(std::int64_t side, const Real* values, Real* q, Real* x) {
  const int n = static_cast<int>(side);
  for (std::int64_t j = 0; j < side; ++j) {
    const Real factor = std::sqrt(values[j]);
    for (std::int64_t i = 0; i < side; ++i) q[j * side + i] *= factor;
  }
  if (side <= longest_dense_factor)
    blas::gemm('N', 'T', n, n, n, Real(1), q, n, q, n, Real(0), x, n);
  else
    blas::syrk('L', 'N', n, n, Real(1), q, n, Real(0), x, n);
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t j = i + 1; j < side; ++j) x[j * side + i] = x[i * side + j];
}

}  // namespace

std::size_t eigen_scratch(std::int64_t side) {
  return scratch_bytes<double>(side * side) + scratch_bytes<double>(side) +
         scratch_bytes<double>(work_count(side)) + scratch_bytes<int>(integer_count(side));
}

void CpuBackend::eigh(std::span<const SquareMatrixBatch> a, Eigensolver solver,
                      std::int32_t* failed) {
  for_each_matrix(workers_, a, 3, 9, [&](std::size_t g, std::int64_t member, Scratch& scratch) {
    with_real(a[g].type, [&]<typename Real>(Real*) {
      failed[a[g].first + member] = decompose<Real>(a[g], member, solver, scratch);
    });
  });
}

void CpuBackend::root_spectrum(std::span<const SquareMatrixBatch> a, const Spectrum& spectrum) {
  // A power costs as much as some tens of products.
  for_each_matrix(workers_, a, 2, 1, [&](std::size_t g, std::int64_t member, Scratch&) {
    const std::int64_t row = a[g].first + member;
    with_real(a[g].type, [&]<typename Real>(Real*) {
      Real* const values = values_of<Real>(a[g], member);
      const std::int64_t n = a[g].side;
      const SpectrumRule<Real> rule(spectrum, row, values[0], values[n - 1], n);
      double clamped = 0;
      for (std::int64_t i = 0; i < n; ++i) clamped += rule.apply(values[i]) ? 1 : 0;
      if (spectrum.clamped != nullptr) spectrum.clamped[row] = clamped;
    });
  });
}

void CpuBackend::reconstruct(std::span<const SquareMatrixBatch> q,
                             std::span<const SquareMatrixBatch> x) {
  for_each_matrix(workers_, q, 3, 1, [&](std::size_t g, std::int64_t member, Scratch&) {
    with_real(q[g].type, [&]<typename Real>(Real*) {
      reconstruct_matrix(q[g].side, values_of<Real>(q[g], member), matrix_of<Real>(q[g], member),
                         matrix_of<Real>(x[g], member));
    });
  });
}

}  // namespace shampoo::kernels
