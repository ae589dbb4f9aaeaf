// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/square_product.h"
#include "kernels/cpu/mode_products.h"
#include "kernels/cpu/polar_panels.h"
#include "kernels/cpu/simd/vector_kernels.h"
#include "kernels/cpu/threads/scratch.h"
#include "kernels/cpu/triangles.h"
#include "kernels/solvers/polar_plan.h"

/// The steps of a PolarPlan.
namespace shampoo::kernels {

/// Sides up to this square by multiply_square(), longer ones by syrk.
constexpr int longest_dense_square = 100;

/// R <- X X^T + keep R, of a tall X: X^T X, for `inner` columns or rows of X. BLAS sees X^T, and a
/// lower triangle as its upper one.
template <typename Real>
void add_gram(const MatrixShape& shape, int inner, const Real* x, Real keep, Real* r) {
  const int k = shape.side(), stride = shape.wide() ? inner : k;
  const char first = shape.wide() ? 'T' : 'N', second = shape.wide() ? 'N' : 'T';
  if (k <= longest_dense_factor)
    blas::gemm(first, second, k, k, inner, Real(1), x, stride, x, stride, keep, r, k);
  else
    blas::syrk('U', first, k, inner, Real(1), x, stride, keep, r, k);
}

/// The other triangle after add_gram()
template <typename Real>
void complete_gram(const MatrixShape& shape, Real* r) {
  if (shape.side() > longest_dense_factor) mirror_lower(r, shape.side());
}

/// Q <- a I + b R + c R^2
template <typename Real>
void form_polynomial(int k, const std::array<double, 3>& step, const Real* r, Real* q,
                     Real* products) {
  const Real a = static_cast<Real>(step[0]), b = static_cast<Real>(step[1]);
  const Real c = static_cast<Real>(step[2]);
  const std::int64_t count = std::int64_t{k} * k;
  if (k <= longest_dense_square) {
    multiply_square(r, r, q, k, products);
    for (std::int64_t i = 0; i < count; ++i) q[i] = c * q[i] + b * r[i];
  } else {
    std::copy(r, r + count, q);
    blas::syrk('U', 'N', k, k, c, r, k, b, q, k);
    mirror_lower(q, k);
  }
  for (std::int64_t i = 0; i < k; ++i) q[i * (k + 1)] += a;
}

/// Y <- alpha Q X of a panel X, of a tall one alpha X Q; rows of a wide Y lie `stride` apart. With
/// one operand transposed, which makes no difference to Q, OpenBLAS's products without packing
/// allocate nothing.
template <typename Real>
void multiply_panel(const MatrixShape& shape, Real alpha, const Real* q, int count, const Real* x,
                    Real* y, int stride) {
  const int k = shape.side();
  if (shape.wide())
    blas::gemm('N', 'T', count, k, k, alpha, x, count, q, k, Real(0), y, stride);
  else
    blas::gemm('T', 'N', k, count, k, alpha, q, k, x, k, Real(0), y, k);
}

/// X <- X / size
template <typename Real>
void normalize(double size, std::int64_t count, Real* x) {
  for (std::int64_t i = 0; i < count; ++i)
    x[i] = static_cast<Real>(static_cast<double>(x[i]) * (1 / size));
}

/// X <- scale p_s(... p_1(X))
template <typename Real>
void take_steps(const MatrixShape& shape, const PolarPlan& plan, Real* x, Scratch& scratch) {
  Real* const r = scratch.take<Real>(shape.square());
  Real* const q = scratch.take<Real>(shape.square());
  Real* const panel = scratch.take<Real>(panel_elements(shape));
  Real* const products = scratch.take<Real>(block_product_scratch(shape.side()));
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const bool last = s + 1 == plan.steps.size();
    add_gram(shape, shape.longer(), x, Real(0), r);
    complete_gram(shape, r);
    form_polynomial(shape.side(), plan.steps[s], r, q, products);
    for_each_panel(shape, [&](const Panel& at) {
      copy_panel(shape, at, x, panel);
      multiply_panel(shape, last ? static_cast<Real>(plan.scale) : Real(1), q, at.count, panel,
                     x + std::int64_t{at.first} * (shape.wide() ? 1 : shape.columns),
                     shape.columns);
    });
  }
}

/// F of one block and the place of its P, for panels one after another.
template <typename Matrix, typename Real>
concept PanelMatrix = requires(const Matrix& matrix, const Panel& panel, Real* f, const Real* p) {
  matrix.read(panel, f);       // F, any number of times
  matrix.take(panel, f);       // F, for the last time
  matrix.set_norm_bound(1.0);  // an upper bound of |P|^2, finite only if P is; before any P
  matrix.write(panel, p);      // P, of a panel that was taken
};

/// R <- X X^T of X = F / size; returns the size.
template <typename Real, PanelMatrix<Real> Matrix>
double read_gram(const VectorKernels<Real>& vector, const MatrixShape& shape, double floor,
                 const Matrix& matrix, Real* panel, Real* r) {
  const std::int64_t k = shape.side();
  double squares = 0;
  for_each_panel(shape, [&](const Panel& at) {
    matrix.read(at, panel);
    squares += vector.squared_norm(panel, k * at.count);
  });
  const double size = std::max(std::sqrt(squares), floor);
  for_each_panel(shape, [&](const Panel& at) {
    matrix.read(at, panel);
    normalize(size, k * at.count, panel);
    add_gram(shape, at.count, panel, at.first == 0 ? Real(0) : Real(1), r);
  });
  complete_gram(shape, r);
  return size;
}

/// Q <- p(R), T <- T Q, R <- Q R Q in every step; returns T. In place of R, which is lost.
template <typename Real>
const Real* iterate_on_gram(const MatrixShape& shape, const PolarPlan& plan, Real* r,
                            Scratch& scratch) {
  const int k = shape.side();
  Real* const q = scratch.take<Real>(shape.square());
  Real* t = scratch.take<Real>(shape.square());
  Real* other = scratch.take<Real>(shape.square());
  Real* const products = scratch.take<Real>(block_product_scratch(k));
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    Real* const factor = s == 0 ? t : q;
    form_polynomial(k, plan.steps[s], r, factor, products);
    if (s > 0) {
      multiply_square(t, q, other, k, products);
      std::swap(t, other);
    }
    if (s + 1 == plan.steps.size()) break;
    multiply_square(factor, r, other, k, products);
    multiply_square(other, factor, r, k, products);
  }
  return t;
}

/// The same steps on R alone; at the end P <- scale T X.
template <typename Real, PanelMatrix<Real> Matrix>
void take_steps_on_gram(const VectorKernels<Real>& vector, const MatrixShape& shape,
                        const PolarPlan& plan, const Matrix& matrix, Scratch& scratch) {
  const int k = shape.side();
  Real* const r = scratch.take<Real>(shape.square());
  Real* const panel = scratch.take<Real>(panel_elements(shape));
  Real* const product = scratch.take<Real>(panel_elements(shape));
  const double size = read_gram(vector, shape, plan.floor, matrix, panel, r);
  double trace = 0;
  for (std::int64_t i = 0; i < k; ++i) trace += static_cast<double>(r[i * (k + 1)]);
  const Real* const t = iterate_on_gram(shape, plan, r, scratch);

  // |P|_F <= scale |T|_F |X|_F; a number that the type cannot hold would not stay finite in it.
  const double squared = plan.scale * plan.scale * vector.squared_norm(t, shape.square()) * trace;
  constexpr double most = std::numeric_limits<Real>::max();
  matrix.set_norm_bound(std::sqrt(squared) <= most ? squared
                                                   : std::numeric_limits<double>::infinity());
  for_each_panel(shape, [&](const Panel& at) {
    matrix.take(at, panel);
    normalize(size, std::int64_t{k} * at.count, panel);
    multiply_panel(shape, static_cast<Real>(plan.scale), t, at.count, panel, product,
                   shape.wide() ? at.count : k);
    matrix.write(at, product);
  });
}

}  // namespace shampoo::kernels
