// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/blas/square_product.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/mode_products.h"
#include "kernels/cpu/solver_tasks.h"
#include "kernels/cpu/triangles.h"

namespace shampoo::kernels {

namespace {

/// Sides up to this square by multiply_square(), longer ones by syrk.
constexpr int longest_dense_square = 100;

struct MatrixShape {
  int rows, columns;

  explicit MatrixShape(const Stack& stack)
      : rows(static_cast<int>(stack.extent[0])), columns(static_cast<int>(stack.extent[1])) {}

  int side() const { return std::min(rows, columns); }
  bool wide() const { return rows <= columns; }
  std::int64_t elements() const { return std::int64_t{rows} * columns; }
  std::int64_t square() const { return std::int64_t{side()} * side(); }
};

/// What LAPACK asks for, and room for its blocks.
std::int64_t svd_work_count(const MatrixShape& shape) {
  const std::int64_t k = shape.side(), l = std::max(shape.rows, shape.columns);
  return 4 * k * k + 8 * k + 64 * (k + l);
}

/// Columns, of a tall X rows, that apply_polynomial() takes at a time: the short side is multiplied
/// often enough to hide that Q is read anew.
constexpr int longest_panel = 512;

std::int64_t panel_count(const MatrixShape& shape) {
  return std::int64_t{shape.side()} * std::min(std::max(shape.rows, shape.columns), longest_panel);
}

template <typename Real>
std::size_t polar_scratch(const MatrixShape& shape, const PolarPlan& plan) {
  const std::int64_t k = shape.side();
  const std::size_t square = scratch_bytes<Real>(shape.square());
  if (plan.steps.empty())
    return scratch_bytes<Real>(shape.elements()) + square + scratch_bytes<Real>(k) +
           scratch_bytes<Real>(svd_work_count(shape)) + scratch_bytes<int>(8 * k);
  return (plan.on_gram ? 4 : 2) * square + scratch_bytes<Real>(panel_count(shape)) +
         scratch_bytes<Real>(block_product_scratch(k));
}

/// R <- X X^T, of a tall X: X^T X. BLAS sees X^T, and a lower triangle as its upper one.
template <typename Real>
void form_gram(const MatrixShape& shape, const Real* x, Real* r) {
  const int k = shape.side(), n = shape.columns;
  const int inner = std::max(shape.rows, n);
  const char first = shape.wide() ? 'T' : 'N', second = shape.wide() ? 'N' : 'T';
  if (k <= longest_dense_factor)
    return blas::gemm(first, second, k, k, inner, Real(1), x, n, x, n, Real(0), r, k);
  blas::syrk('U', first, k, inner, Real(1), x, n, Real(0), r, k);
  mirror_lower(r, k);
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

/// X <- alpha Q X, of a tall X: alpha X Q, a panel at a time, which is copied before. With one
/// operand transposed, which makes no difference to Q, OpenBLAS's products without packing allocate
/// nothing.
template <typename Real>
void apply_polynomial(const MatrixShape& shape, Real alpha, const Real* q, Real* x, Real* panel) {
  const int k = shape.side(), n = shape.columns;
  const int longer = std::max(shape.rows, n);
  for (int first = 0; first < longer; first += longest_panel) {
    const int count = std::min(longest_panel, longer - first);
    if (shape.wide()) {
      for (std::int64_t i = 0; i < k; ++i) std::copy_n(x + i * n + first, count, panel + i * count);
      blas::gemm('N', 'T', count, k, k, alpha, panel, count, q, k, Real(0), x + first, n);
    } else {
      Real* const rows = x + std::int64_t{first} * n;
      std::copy_n(rows, std::int64_t{count} * n, panel);
      blas::gemm('T', 'N', n, count, n, alpha, q, n, panel, n, Real(0), rows, n);
    }
  }
}

/// X <- scale p_s(... p_1(X))
template <typename Real>
void take_steps(const MatrixShape& shape, const PolarPlan& plan, Real* x, Scratch& scratch) {
  Real* const r = scratch.take<Real>(shape.square());
  Real* const q = scratch.take<Real>(shape.square());
  Real* const panel = scratch.take<Real>(panel_count(shape));
  Real* const products = scratch.take<Real>(block_product_scratch(shape.side()));
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const bool last = s + 1 == plan.steps.size();
    form_gram(shape, x, r);
    form_polynomial(shape.side(), plan.steps[s], r, q, products);
    apply_polynomial(shape, last ? static_cast<Real>(plan.scale) : Real(1), q, x, panel);
  }
}

/// The same on R alone: Q <- p(R), T <- T Q, R <- Q R Q; at the end X <- scale T X.
template <typename Real>
void take_steps_on_gram(const MatrixShape& shape, const PolarPlan& plan, Real* x,
                        Scratch& scratch) {
  const int k = shape.side();
  Real* const r = scratch.take<Real>(shape.square());
  Real* const q = scratch.take<Real>(shape.square());
  Real* t = scratch.take<Real>(shape.square());
  Real* other = scratch.take<Real>(shape.square());
  Real* const panel = scratch.take<Real>(panel_count(shape));
  Real* const products = scratch.take<Real>(block_product_scratch(k));
  form_gram(shape, x, r);
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
  apply_polynomial(shape, static_cast<Real>(plan.scale), t, x, panel);
}

/// X <- scale U V^T. BLAS sees X^T = V S U^T and P^T = V U^T. `size` is what X was divided by.
template <typename Real>
void decompose_svd(const MatrixShape& shape, const PolarPlan& plan, double size, Real* x,
                   Scratch& scratch) {
  const int m = shape.rows, n = shape.columns, k = shape.side();
  Real* const v = scratch.take<Real>(std::int64_t{n} * k);
  Real* const ut = scratch.take<Real>(std::int64_t{k} * m);
  Real* const values = scratch.take<Real>(k);
  Real* const work = scratch.take<Real>(svd_work_count(shape));
  int* const integers = scratch.take<int>(std::int64_t{8} * k);
  int rank = 0;
  double sum = 0;
  if (is_finite(x, shape.elements()) &&
      blas::gesdd(n, m, x, values, v, ut, work, static_cast<int>(svd_work_count(shape)),
                  integers) == 0) {
    const Real cut = static_cast<Real>(m + n) * std::numeric_limits<Real>::epsilon() * values[0];
    for (; rank < k && values[rank] > cut; ++rank) sum += static_cast<double>(values[rank]);
  }
  const double scale = plan.scale * (plan.nuclear ? sum * size : 1);
  blas::gemm('N', 'N', n, m, rank, static_cast<Real>(scale), v, n, ut, k, Real(0), x, n);
}

template <typename Real>
void orthogonalize_block(const VectorKernels<Real>& vector, const Stack& stack,
                         const PolarPlan& plan, Real* x, Scratch& scratch) {
  const MatrixShape shape(stack);
  const double size = std::max(std::sqrt(vector.squared_norm(x, shape.elements())), plan.floor);
  for (std::int64_t i = 0; i < shape.elements(); ++i)
    x[i] = static_cast<Real>(static_cast<double>(x[i]) * (1 / size));
  if (plan.steps.empty())
    decompose_svd(shape, plan, size, x, scratch);
  else if (plan.on_gram)
    take_steps_on_gram(shape, plan, x, scratch);
  else
    take_steps(shape, plan, x, scratch);
}

}  // namespace

void CpuBackend::reserve_orthogonalization(std::span<const Stack> stacks,
                                           std::span<const PolarPlan> plans, Type arithmetic) {
  std::size_t bytes = 0;
  for (std::size_t s = 0; s < stacks.size(); ++s)
    with_real(arithmetic, [&]<typename Real>(Real*) {
      bytes = std::max(bytes, polar_scratch<Real>(MatrixShape(stacks[s]), plans[s]));
    });
  workers_.reserve(bytes, stacks.size());
}

void CpuBackend::orthogonalize(const PassContext& phase, std::span<const Stack> stacks,
                               std::span<const Selection> selected,
                               std::span<const PolarPlan> plans, void* direction,
                               double* direction_norms) {
  if (*phase.proceed == 0) return;
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, selected[s].count,
                          polar_operations(plans[s], stacks[s].extent[0], stacks[s].extent[1]));
  with_real(phase.elements.arithmetic, [&]<typename Real>(Real*) {
    const VectorKernels<Real>& vector = level_.in<Real>();
    workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
      const std::int64_t row = stacks[s].first_block + selected[s].blocks[member];
      const Block& block = phase.elements.blocks[row];
      Real* const d = static_cast<Real*>(direction) + block.flat;
      orthogonalize_block(vector, stacks[s], plans[s], d, scratch);
      if (direction_norms != nullptr) direction_norms[row] = vector.squared_norm(d, block.elements);
    });
  });
}

}  // namespace shampoo::kernels
