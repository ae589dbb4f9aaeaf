// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/tridiagonal.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/reflections.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/solver_tasks.h"

namespace shampoo::kernels {

namespace {

/// Reflections that are applied together.
constexpr std::int64_t panel_rows = 32;

/// max over i of sum_j |t_ij|
double largest_row_sum(const TridiagonalMatrix& t) {
  double largest = 0;
  for (std::int64_t i = 0; i < t.side; ++i) {
    const double left = i == 0 ? 0 : std::abs(t.e[i - 1]);
    const double right = i + 1 == t.side ? 0 : std::abs(t.e[i]);
    largest = std::max(largest, left + std::abs(t.d[i]) + right);
  }
  return largest;
}

/// Whether T + shift I is, by its pivots.
bool is_positive_definite(const TridiagonalMatrix& t, double shift) {
  double pivot = 1;
  for (std::int64_t i = 0; i < t.side; ++i) {
    pivot = t.d[i] + shift - (i == 0 ? 0 : t.e[i - 1] * t.e[i - 1] / pivot);
    if (!(pivot > 0)) return false;
  }
  return true;
}

/// X <- Q X Q^T for symmetric X, with Q the product of the reflections that tridiagonalize() made.
template <typename Real>
class BackTransformation {
 public:
  BackTransformation(std::int64_t n, Scratch& scratch) : n_(n) {
    v_ = scratch.take<Real>(panel_rows * n);
    y_ = scratch.take<Real>(panel_rows * n);
    yt_ = scratch.take<Real>(panel_rows * n);
    z_ = scratch.take<Real>(panel_rows * n);
    g_ = scratch.take<Real>(panel_rows * n);
    tt_ = scratch.take<Real>(panel_rows * panel_rows);
    small_ = scratch.take<Real>(panel_rows * panel_rows);
    products_ = scratch.take<Real>(block_product_scratch(n));
  }

  /// `v`: rows of the vectors, `stride` elements apart
  void apply(const Real* v, std::int64_t stride, const Real* taus, Real* x) {
    const std::int64_t reflections = n_ - 2;  // the one of a single element is I
    if (reflections <= 0) return;
    for (std::int64_t j = (reflections - 1) / panel_rows * panel_rows; j >= 0; j -= panel_rows) {
      const std::int64_t b = std::min(panel_rows, reflections - j), first = j + 1;
      for (std::int64_t r = 0; r < b; ++r)
        std::copy_n(v + (j + r) * stride + first, n_ - first, v_ + r * (n_ - first));
      form_t(taus + j, b, n_ - first);
      transform(b, first, x);
      // Later panels read columns that this one has left to symmetry.
      const std::int64_t i = std::max(first - panel_rows, std::int64_t{0});
      level_.transpose(x + i * n_ + first, first - i, n_ - first, n_, x + first * n_ + i, n_);
    }
  }

 private:
  void form_t(const Real* taus, std::int64_t b, std::int64_t m) {
    multiply<Real>({b, b, m}, {v_, m, true}, {v_, m, true}, {}, small_, b, products_);
    level_.form_t(b, small_, taus, tt_);
  }

  /// X <- H X H^T with H = I - V^T T V, which acts on the m elements from `first` on.
  void transform(std::int64_t b, std::int64_t first, Real* x) {
    const std::int64_t m = n_ - first;
    Real* const corner = x + first * (n_ + 1);
    // X H^T = X - Y T^T V with Y = X V^T
    multiply<Real>({n_, b, m}, {x + first, n_, true}, {v_, m, true}, {}, y_, b, products_);
    multiply<Real>({n_, b, b}, {y_, b, true}, {tt_, b, false}, {}, yt_, b, products_);
    subtract<Real>({n_, m, b}, {yt_, b, true}, {v_, m, false}, x + first, n_, products_);
    // H (X H^T) = X H^T - V^T T Z with Z = V X H^T = Y^T - V Y T^T V
    level_.transpose(y_ + first * b, m, b, b, z_, m);
    multiply<Real>({b, b, m}, {v_, m, true}, {yt_ + first * b, b, false}, {}, small_, b, products_);
    subtract<Real>({b, m, b}, {small_, b, true}, {v_, m, false}, z_, m, products_);
    multiply<Real>({b, m, b}, {tt_, b, false}, {z_, m, false}, {}, g_, m, products_);
    subtract<Real>({m, m, b}, {v_, m, false}, {g_, m, false}, corner, n_, products_);
  }

  const ReflectionsIn<Real>& level_ = best_reflections<Real>();
  std::int64_t n_;
  Real *v_, *y_, *yt_, *z_, *g_, *tt_, *small_, *products_;
};

/// One matrix of tridiagonal_root().
template <typename Real>
std::int32_t compute_root(const VectorKernels<Real>& vector, std::int64_t n,
                          const TridiagonalRoot& how, std::int64_t row, const Real* a, Real* x,
                          Scratch& scratch) {
  if (!is_finite(a, n * n)) return non_finite_root;
  Real* const taus = scratch.take<Real>(n);
  double* const d = scratch.take<double>(n);
  double* const e = scratch.take<double>(n);
  const std::int64_t stride = reflection_stride<Real>(n);
  Real* const rows = scratch.take<Real>(n * stride);
  for (std::int64_t i = 0; i < n; ++i)
    std::fill(std::copy_n(a + i * n, n, rows + i * stride), rows + (i + 1) * stride, Real(0));
  best_reflections<Real>().tridiagonalize(rows, n, stride, d, e, taus,
                                          scratch.take<Real>(2 * stride));
  const TridiagonalMatrix t{.side = n, .d = d, .e = e};

  const double bound = largest_row_sum(t), relative = bound / how.kappa_max;
  const double epsilon = how.epsilons[row] / how.scales[row];
  const double shift = std::max(epsilon, relative), size = bound + shift;
  how.clamped[row] = relative > epsilon ? 1 : 0;
  if (!(size > 0) || !is_positive_definite(t, shift / 2)) return 1;
  how.scales[row] *= size;
  for (std::int64_t i = 0; i < n; ++i) {
    d[i] = (d[i] + shift) / size;
    if (i + 1 < n) e[i] /= size;
  }

  const auto count = static_cast<std::int64_t>(how.fractions.size());
  double* const poles = scratch.take<double>(count);
  double* const weights = scratch.take<double>(count);
  for (std::int64_t k = 0; k < count; ++k) {
    poles[k] = how.fractions[k].pole;
    weights[k] = how.fractions[k].weight;
  }
  vector.sum_resolvents(t, {.count = count, .poles = poles, .weights = weights},
                        scratch.take<double>(n * count),
                        scratch.take<Real>(resolvent_scratch(n, count)), x);
  BackTransformation<Real>(n, scratch).apply(rows, stride, taus, x);
  return 0;
}

}  // namespace

std::size_t tridiagonal_scratch(std::int64_t side) {
  constexpr std::int64_t most = most_partial_fractions;
  const std::int64_t stride = reflection_stride<double>(side);
  return 3 * scratch_bytes<double>(side) + scratch_bytes<double>(side * stride) +
         scratch_bytes<double>(2 * stride) + 5 * scratch_bytes<double>(panel_rows * side) +
         2 * scratch_bytes<double>(most) + scratch_bytes<double>(side * most) +
         scratch_bytes<double>(resolvent_scratch(side, most)) +
         2 * scratch_bytes<double>(panel_rows * panel_rows) +
         scratch_bytes<double>(block_product_scratch(side));
}

void CpuBackend::tridiagonal_root(std::span<const SquareMatrixBatch> a, const TridiagonalRoot& how,
                                  std::span<const SquareMatrixBatch> x, std::int32_t* failed) {
  for_each_matrix(workers_, a, 3, 4, [&](std::size_t g, std::int64_t member, Scratch& scratch) {
    const std::int64_t row = a[g].first + member;
    with_real(a[g].type, [&]<typename Real>(Real*) {
      failed[row] =
          compute_root(level_.in<Real>(), a[g].side, how, row, matrix_of<Real>(a[g], member),
                       matrix_of<Real>(x[g], member), scratch);
    });
  });
}

}  // namespace shampoo::kernels
