// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/square_product.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/matrix_numbers.h"
#include "kernels/cpu/solver_tasks.h"
#include "kernels/solvers/solver_formulas.h"

namespace shampoo::kernels {

namespace {

/// body(i, j) for j <= i, tile by tile: elements that mirror each other share few cache lines.
template <typename Body>
void for_lower_triangle(std::int64_t n, Body&& body) {
  constexpr std::int64_t tile = 32;
  for (std::int64_t top = 0; top < n; top += tile)
    for (std::int64_t left = 0; left <= top; left += tile)
      for (std::int64_t i = top; i < std::min(top + tile, n); ++i)
        for (std::int64_t j = left; j < std::min(left + tile, i + 1); ++j) body(i, j);
}

/// C <- product (C + C^T) / 2 + first A + addend D + identity I
template <typename Real>
void weigh(const Weights& weights, const Real* a, const Real* d, Real* c, std::int64_t n) {
  const Real product = static_cast<Real>(weights.product), first = static_cast<Real>(weights.first);
  const Real addend = static_cast<Real>(weights.addend);
  const Real identity = static_cast<Real>(weights.identity);
  constexpr Real half = Real(0.5);
  for_lower_triangle(n, [&](std::int64_t i, std::int64_t j) {
    const Real mean = half * c[i * n + j] + half * c[j * n + i];
    Real x = product * mean;
    if (first != 0) x += first * a[i * n + j];
    if (addend != 0) x += addend * d[i * n + j];
    c[i * n + j] = c[j * n + i] = x;
  });
  for (std::int64_t i = 0; i < n; ++i) c[i * (n + 1)] += identity;
}

/// M and N; see DampingWeights.
template <typename Real>
void damp_matrix(const DampingWeights<Real>& weights, const Real* a, const Real* s,
                 std::int64_t side, Real* m, Real* n) {
  for (std::int64_t e = 0; e < side * side; ++e) {
    n[e] = weights.of_squared * s[e] + weights.of_a * a[e];
    m[e] = a[e] * weights.weight;
  }
  for (std::int64_t i = 0; i < side; ++i) {
    n[i * (side + 1)] += weights.of_identity;
    m[i * (side + 1)] += weights.shift;
  }
}

}  // namespace

void CpuBackend::damp(std::span<const SquareMatrixBatch> a,
                      std::span<const SquareMatrixBatch> squared, const Damping& damping,
                      std::span<const SquareMatrixBatch> m, std::span<const SquareMatrixBatch> n,
                      Form) {
  for_each_matrix(workers_, a, 2, 8, [&](std::size_t g, std::int64_t member, Scratch&) {
    const std::int64_t side = a[g].side, row = a[g].first + member;
    with_real(a[g].type, [&]<typename Real>(Real*) {
      const Real* const matrix = matrix_of<Real>(a[g], member);
      const Real* const square = matrix_of<Real>(squared[g], member);
      const DampingShift by = damping_shift(damping, row, frobenius(square, side));
      damp_matrix(DampingWeights<Real>(by, damping.polynomial), matrix, square, side,
                  matrix_of<Real>(m[g], member), matrix_of<Real>(n[g], member));
    });
  });
}

/// All forms are dense here.
void CpuBackend::convert(std::span<const SquareMatrixBatch> a, std::span<const SquareMatrixBatch> c,
                         Form) {
  for_each_matrix(workers_, a, 2, 1, [&](std::size_t g, std::int64_t member, Scratch&) {
    with_real(a[g].type, [&]<typename Real>(Real*) {
      std::copy_n(matrix_of<Real>(a[g], member), a[g].side * a[g].side,
                  matrix_of<Real>(c[g], member));
    });
  });
}

void CpuBackend::multiply_symmetric(std::span<const SquareMatrixBatch> a,
                                    std::span<const SquareMatrixBatch> b, Form,
                                    const Weights& weights, std::span<const SquareMatrixBatch> d,
                                    std::span<const SquareMatrixBatch> c, Form) {
  for_each_matrix(workers_, a, 3, 2, [&](std::size_t g, std::int64_t member, Scratch& scratch) {
    const int n = static_cast<int>(a[g].side);
    with_real(a[g].type, [&]<typename Real>(Real*) {
      const Real* const left = matrix_of<Real>(a[g], member);
      Real* const product = matrix_of<Real>(c[g], member);
      multiply_square(left, matrix_of<Real>(b[g], member), product, n,
                      scratch.take<Real>(block_product_scratch(n)));
      weigh(weights, left, matrix_of<Real>(d[g], member), product, n);
    });
  });
}

void CpuBackend::check_identity(std::span<const SquareMatrixBatch> m, Form, double limit,
                                const std::int32_t* proceed, const std::uint8_t* active,
                                std::int32_t* failed) {
  const bool refused = proceed != nullptr && *proceed == 0;
  for_each_matrix(workers_, m, 2, 2, [&](std::size_t g, std::int64_t member, Scratch&) {
    with_real(m[g].type, [&]<typename Real>(Real*) {
      const double distance = distance_from_identity(matrix_of<Real>(m[g], member), m[g].side);
      const std::int64_t row = m[g].first + member;
      failed[row] = refused || (active != nullptr && active[row] == 0) ? skipped_root
                    : distance <= limit                                ? 0
                                                                       : non_finite_root;
    });
  });
}

}  // namespace shampoo::kernels
