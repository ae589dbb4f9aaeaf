// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/householder.h"

#include <algorithm>
#include <string_view>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/reflections.h"
#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels {

namespace {

const Reflections& reflections() {
  static const Reflections best = [] {
    [[maybe_unused]] const std::string_view level = best_level().name;
#if defined(__x86_64__)
    if (level == x86_v4_level().name) return x86_v4_reflections();
    if (level == x86_v3_level().name) return x86_v3_reflections();
#endif
    return base_reflections();
  }();
  return best;
}

}  // namespace

template <>
const ReflectionsIn<float>& best_reflections() {
  return reflections().in_float;
}
template <>
const ReflectionsIn<double>& best_reflections() {
  return reflections().in_double;
}

namespace {

/// Rows that are reflected together.
constexpr std::int64_t panel_rows = 32;

constexpr std::int64_t panels_of(std::int64_t n) { return (n + panel_rows - 1) / panel_rows; }

/// Arrays of one orthonormalisation, row-major.
template <typename Real>
struct Reflected {
  const ReflectionsIn<Real>& level = best_reflections<Real>();
  std::int64_t n, stride;
  Real *v, *q;  ///< n x stride: the reflections' vectors, one per row; Q
  Real* t;      ///< T^T of every panel, b x b
  Real* w;      ///< n x b
  Real* s;      ///< S^T, b x n
  Real *taus, *products;

  Reflected(std::int64_t side, Scratch& scratch) : n(side), stride(reflection_stride<Real>(side)) {
    v = scratch.take<Real>(side * stride);
    q = scratch.take<Real>(side * stride);
    t = scratch.take<Real>(panels_of(side) * panel_rows * panel_rows);
    w = scratch.take<Real>(side * panel_rows);
    s = scratch.take<Real>(side * panel_rows);
    taus = scratch.take<Real>(panel_rows);
    products = scratch.take<Real>(block_product_scratch(side));
  }

  std::int64_t rows_from(std::int64_t j) const { return std::min(panel_rows, n - j); }
  Real* t_of(std::int64_t j) const { return t + j * panel_rows; }

  /// W <- R V^T, with `rows` rows R and b rows V, whose columns are those from `first` on
  void project(std::int64_t rows, std::int64_t b, std::int64_t first, const Real* r,
               const Real* vectors, Real* to) const {
    multiply({rows, b, n - first}, {r, stride, true}, {vectors, stride, true}, {}, to, b, products);
  }
  /// R <- R - W T V, or R - W T^T V, of `rows` rows and `columns` columns; `tt`: T^T
  void reflect(std::int64_t rows, std::int64_t b, std::int64_t columns, const Real* vectors,
               const Real* tt, bool transposed, Real* r) const {
    multiply({b, rows, b}, {tt, b, !transposed}, {w, b, true}, {}, s, rows, products);
    subtract({rows, columns, b}, {s, rows, false}, {vectors, stride, false}, r, stride, products);
  }
};

/// V and T of every panel; later rows R <- R - R V^T T V.
template <typename Real>
void factorize(const Reflected<Real>& r) {
  for (std::int64_t j = 0; j < r.n; j += panel_rows) {
    const std::int64_t b = r.rows_from(j), later = r.n - j - b;
    Real* const v = r.v + j * (r.stride + 1);
    r.level.reflect(v, b, r.n - j, r.stride, r.taus);
    r.project(b, b, j, v, v, r.w);
    r.level.form_t(b, r.w, r.taus, r.t_of(j));
    if (later == 0) break;
    Real* const rows = v + b * r.stride;
    r.project(later, b, j, rows, v, r.w);
    // Elements before the next panel would be those of R.
    r.reflect(later, b, later, v + b, r.t_of(j), false, rows + b);
  }
}

/// Rows of Q <- those of I, reflected by the last panel first: R <- R - R V^T T^T V.
template <typename Real>
void form_q(const Reflected<Real>& r) {
  std::fill(r.q, r.q + r.n * r.stride, Real(0));
  for (std::int64_t i = 0; i < r.n; ++i) r.q[i * (r.stride + 1)] = 1;
  for (std::int64_t j = (r.n - 1) / panel_rows * panel_rows; j >= 0; j -= panel_rows) {
    const std::int64_t b = r.rows_from(j), later = r.n - j - b;
    const Real* const v = r.v + j * (r.stride + 1);
    Real* const q = r.q + j * (r.stride + 1);
    // Rows of the panel are those of I, later ones zero in its columns.
    for (std::int64_t i = 0; i < b; ++i)
      for (std::int64_t k = 0; k < b; ++k) r.w[i * b + k] = v[k * r.stride + i];
    if (later > 0) r.project(later, b, j + b, q + b * (r.stride + 1), v + b, r.w + b * b);
    r.reflect(later + b, b, later + b, v, r.t_of(j), true, q);
  }
}

template <typename Real>
void iterate(std::int64_t n, const Real* x, const Real* a, int iterations, Real* q,
             Scratch& scratch) {
  const Reflected<Real> r(n, scratch);
  for (int i = 0; i < iterations; ++i) {
    if (i > 0) multiply({n, n, n}, {r.q, r.stride, true}, {a, n, true}, {}, q, n, r.products);
    r.level.load(i == 0 ? x : q, n, r.v, r.stride);
    factorize(r);
    form_q(r);
  }
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(r.q + i * r.stride, n, q + i * n);
}

}  // namespace

void iterate_orthogonally(std::int64_t n, const float* x, const float* a, int iterations, float* q,
                          Scratch& scratch) {
  iterate(n, x, a, iterations, q, scratch);
}
void iterate_orthogonally(std::int64_t n, const double* x, const double* a, int iterations,
                          double* q, Scratch& scratch) {
  iterate(n, x, a, iterations, q, scratch);
}

std::size_t householder_scratch(std::int64_t side) {
  return 2 * scratch_bytes<double>(side * reflection_stride<double>(side)) +
         scratch_bytes<double>(panels_of(side) * panel_rows * panel_rows) +
         2 * scratch_bytes<double>(side * panel_rows) + scratch_bytes<double>(panel_rows) +
         scratch_bytes<double>(block_product_scratch(side));
}

}  // namespace shampoo::kernels
