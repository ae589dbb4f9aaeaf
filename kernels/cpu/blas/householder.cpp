// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/householder.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/blas/reflections.h"
#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels {

namespace {

/// Rows that are reflected together.
constexpr std::int64_t panel_rows = 32;

template <typename Real>
constexpr std::int64_t stride_of(std::int64_t n) {
  constexpr std::int64_t line = cache_line / sizeof(Real);
  return (n + line - 1) / line * line;
}

constexpr std::int64_t panels_of(std::int64_t n) { return (n + panel_rows - 1) / panel_rows; }

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

void reflect(float* rows, int count, int length, int stride, float* taus) {
  reflections().in_float(rows, count, length, stride, taus);
}
void reflect(double* rows, int count, int length, int stride, double* taus) {
  reflections().in_double(rows, count, length, stride, taus);
}

/// Arrays of one orthonormalisation. BLAS sees V^T, and W^T as W.
template <typename Real>
struct Reflected {
  int n, stride;
  Real *v, *q;  ///< n x stride: the reflections' vectors, one per row; Q
  Real* t;      ///< one b x b matrix per panel, column-major
  Real *w, *scaled, *taus;

  Reflected(std::int64_t side, Scratch& scratch)
      : n(static_cast<int>(side)), stride(static_cast<int>(stride_of<Real>(side))) {
    v = scratch.take<Real>(side * stride);
    q = scratch.take<Real>(side * stride);
    t = scratch.take<Real>(panels_of(side) * panel_rows * panel_rows);
    w = scratch.take<Real>(side * panel_rows);
    scaled = scratch.take<Real>(side * panel_rows);
    taus = scratch.take<Real>(panel_rows);
  }
};

/// In lanes, which compilers turn into vectors. `count` is a multiple of them.
template <typename Real>
Real largest_element(const Real* x, std::int64_t count) {
  constexpr int lanes = cache_line / sizeof(Real);
  Real largest[lanes] = {};
  for (std::int64_t i = 0; i < count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) {
      const Real element = std::abs(x[i + lane]);
      largest[lane] = element > largest[lane] ? element : largest[lane];
    }
  return *std::max_element(largest, largest + lanes);
}

/// Scaled by a power of two, which changes nothing but R.
template <typename Real>
void load_row(const Real* x, Real* v, std::int64_t n, std::int64_t stride) {
  std::copy(x, x + n, v);
  std::fill(v + n, v + stride, Real(0));
  const Real largest = largest_element(v, stride);
  if (!(largest > 0) || !std::isfinite(largest)) return;
  // In two factors: one alone may not be representable.
  const int exponent = -std::ilogb(largest);
  const Real first = std::ldexp(Real(1), exponent / 2);
  const Real second = std::ldexp(Real(1), exponent - exponent / 2);
  for (std::int64_t i = 0; i < n; ++i) v[i] = v[i] * first * second;
}

/// T of I - V^T T V, the product of the panel's reflections; upper triangular.
template <typename Real>
void form_t(int b, int length, int stride, const Real* v, const Real* taus, Real* gram, Real* t) {
  blas::gemm('T', 'N', b, b, length, Real(1), v, stride, v, stride, Real(0), gram, b);
  std::fill(t, t + b * b, Real(0));
  for (int i = 0; i < b; ++i) {
    Real* const column = t + i * b;
    for (int k = 0; k < i; ++k) {
      const Real factor = -taus[i] * gram[i * b + k];
      for (int r = 0; r < b; ++r) column[r] += factor * t[k * b + r];
    }
    column[i] = taus[i];
  }
}

/// V and T of every panel; later rows R <- R - R V^T T V.
template <typename Real>
void factorize(const Reflected<Real>& a) {
  for (int j = 0; j < a.n; j += panel_rows) {
    const int b = std::min<int>(panel_rows, a.n - j), length = a.n - j, later = length - b;
    Real* const v = a.v + std::int64_t{j} * (a.stride + 1);
    Real* const t = a.t + j * panel_rows;
    reflect(v, b, length, a.stride, a.taus);
    form_t(b, length, a.stride, v, a.taus, a.w, t);
    if (later == 0) break;
    Real* const rows = v + std::int64_t{b} * a.stride;
    blas::gemm('T', 'N', b, later, length, Real(1), v, a.stride, rows, a.stride, Real(0), a.w, b);
    blas::gemm('T', 'N', later, b, b, Real(1), a.w, b, t, b, Real(0), a.scaled, later);
    // Elements before the next panel would be those of R.
    blas::gemm('N', 'T', later, later, b, Real(-1), v + b, a.stride, a.scaled, later, Real(1),
               rows + b, a.stride);
  }
}

/// Rows of Q <- those of I, reflected by the last panel first: R <- R - R V^T T^T V.
template <typename Real>
void form_q(const Reflected<Real>& a) {
  std::fill(a.q, a.q + std::int64_t{a.n} * a.stride, Real(0));
  for (std::int64_t i = 0; i < a.n; ++i) a.q[i * (a.stride + 1)] = 1;
  const int last = (a.n - 1) / static_cast<int>(panel_rows) * static_cast<int>(panel_rows);
  for (int j = last; j >= 0; j -= panel_rows) {
    const int b = std::min<int>(panel_rows, a.n - j), length = a.n - j, later = length - b;
    const Real* const v = a.v + std::int64_t{j} * (a.stride + 1);
    const Real* const t = a.t + j * panel_rows;
    Real* const q = a.q + std::int64_t{j} * (a.stride + 1);
    // Rows of the panel are those of I, later ones zero in its columns.
    blas::gemm('N', 'T', b, b, b, Real(1), v, a.stride, t, b, Real(0), a.scaled, length);
    if (later > 0) {
      blas::gemm('T', 'N', b, later, later, Real(1), v + b, a.stride,
                 q + std::int64_t{b} * (a.stride + 1), a.stride, Real(0), a.w, b);
      blas::gemm('T', 'T', later, b, b, Real(1), a.w, b, t, b, Real(0), a.scaled + b, length);
    }
    blas::gemm('N', 'T', length, length, b, Real(-1), v, a.stride, a.scaled, length, Real(1), q,
               a.stride);
  }
}

template <typename Real>
void orthonormalize(std::int64_t n, const Real* x, Real* q, Scratch& scratch) {
  const Reflected<Real> a(n, scratch);
  for (std::int64_t i = 0; i < n; ++i) load_row(x + i * n, a.v + i * a.stride, n, a.stride);
  factorize(a);
  form_q(a);
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(a.q + i * a.stride, n, q + i * n);
}

}  // namespace

void orthonormalize_square(std::int64_t n, const float* x, float* q, Scratch& scratch) {
  orthonormalize(n, x, q, scratch);
}
void orthonormalize_square(std::int64_t n, const double* x, double* q, Scratch& scratch) {
  orthonormalize(n, x, q, scratch);
}

std::size_t householder_scratch(std::int64_t side) {
  return 2 * scratch_bytes<double>(side * stride_of<double>(side)) +
         scratch_bytes<double>(panels_of(side) * panel_rows * panel_rows) +
         2 * scratch_bytes<double>(side * panel_rows) + scratch_bytes<double>(panel_rows);
}

}  // namespace shampoo::kernels
