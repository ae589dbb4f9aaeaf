// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/householder.h"
#include "kernels/cpu/blas/square_product.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/simd/vector_sums.h"
#include "kernels/cpu/solver_tasks.h"

namespace shampoo::kernels {

namespace {

/// Side from which half of the products is worth the second pass over them.
constexpr std::int64_t least_triangular_side = 129;

/// Y <- Q A; above a side 2 Q L - Q D, with L the lower triangle of A and D its diagonal, which
/// has the same products y_j q_j.
template <typename Real>
void multiply_by_symmetric(std::int64_t n, const Real* a, const Real* q, Real* y, Real* diagonal,
                           Real* scratch) {
  if (n < least_triangular_side) return multiply_square(q, a, y, static_cast<int>(n), scratch);
  std::copy(q, q + n * n, y);
  // BLAS sees Y^T, and a lower triangle as its upper one.
  blas::trmm('U', static_cast<int>(n), a, y);
  for (std::int64_t i = 0; i < n; ++i) diagonal[i] = a[i * (n + 1)];
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < n; ++i)
      y[j * n + i] = 2 * y[j * n + i] - diagonal[i] * q[j * n + i];
}

template <typename Real>
void sort_rows(std::int64_t n, const Real* a, const Real* q, Real* s, Real* values,
               Scratch& scratch) {
  Real* const y = scratch.take<Real>(n * n);
  Real* const quotients = scratch.take<Real>(n);
  std::int64_t* const order = scratch.take<std::int64_t>(n);
  multiply_by_symmetric(n, a, q, y, quotients, scratch.take<Real>(block_product_scratch(n)));
  for (std::int64_t j = 0; j < n; ++j) {
    ProductSum dot;
    dot.add(y + j * n, q + j * n, n);
    quotients[j] = static_cast<Real>(dot.total());
  }
  std::iota(order, order + n, std::int64_t{0});
  // By value, then by place: a stable sort that allocates nothing.
  if (is_finite(quotients, n))
    std::sort(order, order + n, [&](std::int64_t i, std::int64_t j) {
      return quotients[i] != quotients[j] ? quotients[i] < quotients[j] : i < j;
    });
  for (std::int64_t j = 0; j < n; ++j) {
    values[j] = quotients[order[j]];
    std::copy(q + order[j] * n, q + (order[j] + 1) * n, s + j * n);
  }
}

template <typename Real, typename Stored>
bool store(const Real* from, std::int64_t count, Stored* to) {
  if (!is_finite_in<Stored>(from, count)) return false;
  std::transform(from, from + count, to, [](Real x) { return static_cast<Stored>(x); });
  return true;
}

}  // namespace

void CpuBackend::load_bases(std::span<const BasisBatch> bases,
                            std::span<const SquareMatrixBatch> q) {
  for_each_matrix(workers_, bases, 2, 1, [&](std::size_t g, std::int64_t member, Scratch&) {
    const std::int64_t count = bases[g].side * bases[g].side;
    with_real(q[g].type, [&]<typename Real>(Real*) {
      with_real(bases[g].type, [&]<typename Stored>(Stored*) {
        const Stored* const from = static_cast<const Stored*>(bases[g].bases[member]);
        std::transform(from, from + count, matrix_of<Real>(q[g], member),
                       [](Stored x) { return static_cast<Real>(x); });
      });
    });
  });
}

void CpuBackend::store_bases(std::span<const SquareMatrixBatch> q,
                             std::span<const BasisBatch> bases, std::int32_t* failed) {
  for_each_matrix(workers_, bases, 2, 2, [&](std::size_t g, std::int64_t member, Scratch&) {
    const std::int64_t n = bases[g].side;
    std::int32_t& flag = failed[bases[g].first + member];
    if (flag != 0) return;
    with_real(q[g].type, [&]<typename Real>(Real*) {
      with_real(bases[g].type, [&]<typename Stored>(Stored*) {
        const Real* const values = values_of<Real>(q[g], member);
        const bool stored =
            is_finite_in<Stored>(values, n) && store(matrix_of<Real>(q[g], member), n * n,
                                                     static_cast<Stored*>(bases[g].bases[member]));
        if (!stored) {
          flag = non_finite_root;
        } else if (bases[g].values != nullptr) {
          store(values, n, static_cast<Stored*>(bases[g].values[member]));
        }
      });
    });
  });
}

void CpuBackend::iterate_orthogonally(std::span<const SquareMatrixBatch> x,
                                      std::span<const SquareMatrixBatch> a,
                                      std::span<const SquareMatrixBatch> q, int iterations,
                                      const std::uint8_t* active) {
  for_each_matrix(workers_, x, 3, 3.0 * iterations,
                  [&](std::size_t g, std::int64_t member, Scratch& scratch) {
                    if (active != nullptr && active[x[g].first + member] == 0) return;
                    with_real(x[g].type, [&]<typename Real>(Real*) {
                      kernels::iterate_orthogonally(x[g].side, matrix_of<Real>(x[g], member),
                                                    matrix_of<Real>(a[g], member), iterations,
                                                    matrix_of<Real>(q[g], member), scratch);
                    });
                  });
}

void CpuBackend::sort_basis(std::span<const SquareMatrixBatch> a,
                            std::span<const SquareMatrixBatch>,
                            std::span<const SquareMatrixBatch> q,
                            std::span<const SquareMatrixBatch> s) {
  for_each_matrix(workers_, a, 3, 2, [&](std::size_t g, std::int64_t member, Scratch& scratch) {
    with_real(a[g].type, [&]<typename Real>(Real*) {
      sort_rows(a[g].side, matrix_of<Real>(a[g], member), matrix_of<Real>(q[g], member),
                matrix_of<Real>(s[g], member), values_of<Real>(s[g], member), scratch);
    });
  });
}

void CpuBackend::multiply_transposed(std::span<const SquareMatrixBatch> a,
                                     std::span<const SquareMatrixBatch> b,
                                     std::span<const SquareMatrixBatch> c) {
  for_each_matrix(workers_, a, 3, 2, [&](std::size_t g, std::int64_t member, Scratch& scratch) {
    const std::int64_t n = a[g].side;
    with_real(a[g].type, [&]<typename Real>(Real*) {
      kernels::multiply({n, n, n}, BlockOperand<Real>{matrix_of<Real>(a[g], member), n, true},
                        BlockOperand<Real>{matrix_of<Real>(b[g], member), n, true}, {},
                        matrix_of<Real>(c[g], member), n,
                        scratch.take<Real>(block_product_scratch(n)));
    });
  });
}

}  // namespace shampoo::kernels
