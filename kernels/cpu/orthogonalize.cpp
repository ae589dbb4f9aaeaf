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
#include "kernels/cpu/tile_work.h"
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
  int longer() const { return std::max(rows, columns); }
  bool wide() const { return rows <= columns; }
  std::int64_t elements() const { return std::int64_t{rows} * columns; }
  std::int64_t square() const { return std::int64_t{side()} * side(); }
};

/// What LAPACK asks for, and room for its blocks.
std::int64_t svd_work_count(const MatrixShape& shape) {
  const std::int64_t k = shape.side(), l = std::max(shape.rows, shape.columns);
  return 4 * k * k + 8 * k + 64 * (k + l);
}

/// Columns, of a tall X rows, that are taken at a time: the short side is multiplied often enough
/// to hide that Q is read anew.
constexpr int longest_panel = 512;

/// `count` columns of a wide X from `first` on, or rows of a tall one. In memory of its own a panel
/// is row-major without gaps.
struct Panel {
  int first, count;
};

template <typename Body>
void for_each_panel(const MatrixShape& shape, const Body& body) {
  for (int first = 0; first < shape.longer(); first += longest_panel)
    body(Panel{first, std::min(longest_panel, shape.longer() - first)});
}

std::int64_t panel_count(const MatrixShape& shape) {
  return std::int64_t{shape.side()} * std::min(shape.longer(), longest_panel);
}

/// body(first element in the matrix, first one in the panel, how many follow both)
template <typename Body>
void for_each_run(const MatrixShape& shape, const Panel& panel, const Body& body) {
  const std::int64_t n = shape.columns, count = panel.count;
  if (!shape.wide()) return body(panel.first * n, std::int64_t{0}, count * n);
  for (std::int64_t i = 0; i < shape.rows; ++i) body(i * n + panel.first, i * count, count);
}

template <typename Real>
std::size_t polar_scratch(const MatrixShape& shape, const PolarPlan& plan) {
  const std::int64_t k = shape.side();
  const std::size_t square = scratch_bytes<Real>(shape.square());
  const std::size_t panel = scratch_bytes<Real>(panel_count(shape));
  const std::size_t products = scratch_bytes<Real>(block_product_scratch(k));
  if (plan.steps.empty())
    return scratch_bytes<Real>(shape.elements()) + square + scratch_bytes<Real>(k) +
           scratch_bytes<Real>(svd_work_count(shape)) + scratch_bytes<int>(8 * k);
  return plan.on_gram ? 4 * square + 2 * panel + products : 2 * square + panel + products;
}

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

/// F in memory, in whose place P comes.
template <typename Real>
struct StoredMatrix {
  MatrixShape shape;
  Real* x;

  void peek(const Panel& panel, Real* f) const {
    for_each_run(shape, panel, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::copy_n(x + from, count, f + to);
    });
  }
  void take(const Panel& panel, Real* f) const { peek(panel, f); }
  void bound(double) const {}
  void put(const Panel& panel, const Real* p) const {
    for_each_run(shape, panel, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      std::copy_n(p + from, count, x + to);
    });
  }
};

/// X <- scale p_s(... p_1(X))
template <typename Real>
void take_steps(const MatrixShape& shape, const PolarPlan& plan, Real* x, Scratch& scratch) {
  Real* const r = scratch.take<Real>(shape.square());
  Real* const q = scratch.take<Real>(shape.square());
  Real* const panel = scratch.take<Real>(panel_count(shape));
  Real* const products = scratch.take<Real>(block_product_scratch(shape.side()));
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const bool last = s + 1 == plan.steps.size();
    add_gram(shape, shape.longer(), x, Real(0), r);
    complete_gram(shape, r);
    form_polynomial(shape.side(), plan.steps[s], r, q, products);
    for_each_panel(shape, [&](const Panel& at) {
      StoredMatrix<Real>{shape, x}.peek(at, panel);
      multiply_panel(shape, last ? static_cast<Real>(plan.scale) : Real(1), q, at.count, panel,
                     x + std::int64_t{at.first} * (shape.wide() ? 1 : shape.columns),
                     shape.columns);
    });
  }
}

/// X <- X / size
template <typename Real>
void normalize(double size, std::int64_t count, Real* x) {
  for (std::int64_t i = 0; i < count; ++i)
    x[i] = static_cast<Real>(static_cast<double>(x[i]) * (1 / size));
}

/// The same on R alone: Q <- p(R), T <- T Q, R <- Q R Q; at the end P <- scale T X. F is read three
/// times and P written, panel by panel: `matrix` has peek(), take() and put(), and is told a bound
/// of |P|^2 before it gets P.
template <typename Real, typename Matrix>
void take_steps_on_gram(const VectorKernels<Real>& vector, const MatrixShape& shape,
                        const PolarPlan& plan, const Matrix& matrix, Scratch& scratch) {
  const int k = shape.side();
  Real* const r = scratch.take<Real>(shape.square());
  Real* const q = scratch.take<Real>(shape.square());
  Real* t = scratch.take<Real>(shape.square());
  Real* other = scratch.take<Real>(shape.square());
  Real* const panel = scratch.take<Real>(panel_count(shape));
  Real* const product = scratch.take<Real>(panel_count(shape));
  Real* const products = scratch.take<Real>(block_product_scratch(k));

  double squares = 0;
  for_each_panel(shape, [&](const Panel& at) {
    matrix.peek(at, panel);
    squares += vector.squared_norm(panel, std::int64_t{k} * at.count);
  });
  const double size = std::max(std::sqrt(squares), plan.floor);
  for_each_panel(shape, [&](const Panel& at) {
    matrix.peek(at, panel);
    normalize(size, std::int64_t{k} * at.count, panel);
    add_gram(shape, at.count, panel, at.first == 0 ? Real(0) : Real(1), r);
  });
  complete_gram(shape, r);

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

  // |X|_F <= 1, so |P|_F <= scale |T|_F; and T is finite if F is.
  matrix.bound(plan.scale * plan.scale * vector.squared_norm(t, shape.square()));
  for_each_panel(shape, [&](const Panel& at) {
    matrix.take(at, panel);
    normalize(size, std::int64_t{k} * at.count, panel);
    multiply_panel(shape, static_cast<Real>(plan.scale), t, at.count, panel, product,
                   shape.wide() ? at.count : k);
    matrix.put(at, product);
  });
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

/// F in memory -> P, by plans that need all of it.
template <typename Real>
void orthogonalize_whole(const VectorKernels<Real>& vector, const MatrixShape& shape,
                         const PolarPlan& plan, Real* x, Scratch& scratch) {
  const double size = std::max(std::sqrt(vector.squared_norm(x, shape.elements())), plan.floor);
  normalize(size, shape.elements(), x);
  if (plan.steps.empty())
    decompose_svd(shape, plan, size, x, scratch);
  else
    take_steps(shape, plan, x, scratch);
}

/// One block of a step: F is filtered gradient, and P updates the block.
template <typename Real>
struct SteppedMatrix {
  const VectorKernels<Real>& vector;
  const PassContext& context;
  const GradientPass& gradients;
  const UpdatePass& update;
  MatrixShape shape;
  std::int64_t row;  ///< of the block
  double* direction_norms;

  void peek(const Panel& panel, Real* f) const {
    for_each_part(panel, gradients.masters,
                  [&](const Work& work, std::int64_t at) { vector.peek(work, gradients, f + at); });
  }
  void take(const Panel& panel, Real* f) const {
    for_each_part(panel, gradients.masters, [&](const Work& work, std::int64_t at) {
      vector.filter(work, gradients, nullptr, f + at);
    });
  }
  void bound(double squared_norm) const { direction_norms[row] = squared_norm; }
  void put(const Panel& panel, const Real* p) const {
    for_each_part(panel, update.masters,
                  [&](const Work& work, std::int64_t at) { vector.update(work, update, p + at); });
  }

 private:
  /// body(work, its first element in the panel)
  template <typename Body>
  void for_each_part(const Panel& panel, const void* masters, const Body& body) const {
    for_each_run(shape, panel, [&](std::int64_t begin, std::int64_t at, std::int64_t count) {
      for_each_tile_part(context.elements, row, begin, count, [&](const Tile& part) {
        const Block& block = context.elements.blocks[row];
        body(work_on(context, part, masters), at + part.flat - block.flat - begin);
      });
    });
  }
};

}  // namespace

void CpuBackend::reserve_orthogonalization(std::span<const Stack> stacks,
                                           std::span<const PolarPlan> plans, Type arithmetic,
                                           bool updates) {
  std::size_t bytes = 0;
  for (std::size_t s = 0; s < stacks.size(); ++s)
    with_real(arithmetic, [&]<typename Real>(Real*) {
      const MatrixShape shape(stacks[s]);
      const bool takes_whole = updates && !plans[s].on_gram;
      bytes = std::max(bytes, polar_scratch<Real>(shape, plans[s]) +
                                  (takes_whole ? scratch_bytes<Real>(shape.elements()) : 0));
    });
  workers_.reserve(bytes, stacks.size());
}

void CpuBackend::schedule_orthogonalization(std::span<const Stack> stacks,
                                            std::span<const Selection> selected,
                                            std::span<const PolarPlan> plans) {
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, selected[s].count,
                          polar_operations(plans[s], stacks[s].extent[0], stacks[s].extent[1]));
}

void CpuBackend::orthogonalize(const PassContext& phase, std::span<const Stack> stacks,
                               std::span<const Selection> selected,
                               std::span<const PolarPlan> plans, void* direction,
                               double* direction_norms) {
  if (*phase.proceed == 0) return;
  schedule_orthogonalization(stacks, selected, plans);
  with_real(phase.elements.arithmetic, [&]<typename Real>(Real*) {
    const VectorKernels<Real>& vector = level_.in<Real>();
    workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
      const std::int64_t row = stacks[s].first_block + selected[s].blocks[member];
      const Block& block = phase.elements.blocks[row];
      Real* const d = static_cast<Real*>(direction) + block.flat;
      const MatrixShape shape(stacks[s]);
      if (plans[s].on_gram)
        take_steps_on_gram(vector, shape, plans[s], StoredMatrix<Real>{shape, d}, scratch);
      else
        orthogonalize_whole(vector, shape, plans[s], d, scratch);
      if (direction_norms != nullptr) direction_norms[row] = vector.squared_norm(d, block.elements);
    });
  });
}

void CpuBackend::orthogonalize_and_update(const PassContext& context, const GradientPass& gradients,
                                          std::span<const Stack> stacks,
                                          std::span<const Selection> selected,
                                          std::span<const PolarPlan> plans, double* direction_norms,
                                          const UpdatePass& update) {
  if (*context.proceed == 0) return;
  schedule_orthogonalization(stacks, selected, plans);
  with_real(context.elements.arithmetic, [&]<typename Real>(Real*) {
    const VectorKernels<Real>& vector = level_.in<Real>();
    workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
      const MatrixShape shape(stacks[s]);
      const SteppedMatrix<Real> matrix{
          vector,         context, gradients,
          update,         shape,   stacks[s].first_block + selected[s].blocks[member],
          direction_norms};
      if (plans[s].on_gram) return take_steps_on_gram(vector, shape, plans[s], matrix, scratch);
      const Panel whole{0, shape.longer()};
      Real* const p = scratch.take<Real>(shape.elements());
      matrix.take(whole, p);
      orthogonalize_whole(vector, shape, plans[s], p, scratch);
      matrix.bound(vector.squared_norm(p, shape.elements()));
      matrix.put(whole, p);
    });
  });
  finish_update(context, update);
}

}  // namespace shampoo::kernels
