// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/square_product.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/matrix_numbers.h"
#include "kernels/cpu/solver_tasks.h"

namespace shampoo::kernels {

namespace {

bool is_active(const std::uint8_t* active, const SquareMatrixBatch& group, std::int64_t member) {
  return active == nullptr || active[group.first + member] != 0;
}

template <typename Real>
double number_of(const Real* a, std::int64_t n, Measure what) {
  switch (what) {
    case Measure::frobenius:
      return frobenius(a, n);
    case Measure::off_diagonal:
      return off_diagonal(a, n);
    case Measure::largest_row_sum:
      return largest_row_sum(a, n);
    case Measure::trace:
      return trace(a, n);
    case Measure::distance_from_identity:
      return distance_from_identity(a, n);
    case Measure::definite_size:
      return definite_size(a, n);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void CpuBackend::multiply(std::span<const SquareMatrixBatch> a,
                          std::span<const SquareMatrixBatch> b,
                          std::span<const SquareMatrixBatch> c, const std::uint8_t* active) {
  for_each_matrix(workers_, a, 3, 2, [&](std::size_t g, std::int64_t member, Scratch& scratch) {
    if (!is_active(active, a[g], member)) return;
    const int n = static_cast<int>(a[g].side);
    with_real(a[g].type, [&]<typename Real>(Real*) {
      multiply_square(matrix_of<Real>(a[g], member), matrix_of<Real>(b[g], member),
                      matrix_of<Real>(c[g], member), n,
                      scratch.take<Real>(block_product_scratch(n)));
    });
  });
}

void CpuBackend::combine(const double* scales, std::span<const SquareMatrixBatch> x,
                         const double* shifts, std::span<const SquareMatrixBatch> y,
                         const std::uint8_t* active) {
  for_each_matrix(workers_, x, 2, 2, [&](std::size_t g, std::int64_t member, Scratch&) {
    if (!is_active(active, x[g], member)) return;
    const std::int64_t n = x[g].side, row = x[g].first + member;
    with_real(x[g].type, [&]<typename Real>(Real*) {
      const Real scale = static_cast<Real>(scales[row]), shift = static_cast<Real>(shifts[row]);
      const Real* const from = matrix_of<Real>(x[g], member);
      Real* const to = matrix_of<Real>(y[g], member);
      for (std::int64_t i = 0; i < n * n; ++i) to[i] = scale * from[i];
      for (std::int64_t i = 0; i < n; ++i) to[i * (n + 1)] += shift;
    });
  });
}

void CpuBackend::measure(std::span<const SquareMatrixBatch> a, Measure what, double* numbers,
                         const std::uint8_t* active) {
  for_each_matrix(workers_, a, 2, 2, [&](std::size_t g, std::int64_t member, Scratch&) {
    if (!is_active(active, a[g], member)) return;
    with_real(a[g].type, [&]<typename Real>(Real*) {
      numbers[a[g].first + member] = number_of(matrix_of<Real>(a[g], member), a[g].side, what);
    });
  });
}

}  // namespace shampoo::kernels
