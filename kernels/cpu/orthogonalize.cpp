// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/polar_steps.h"
#include "kernels/cpu/solver_tasks.h"
#include "kernels/cpu/tile_work.h"

namespace shampoo::kernels {

namespace {

/// What LAPACK asks for, and room for its blocks.
std::int64_t svd_work_count(const MatrixShape& shape) {
  const std::int64_t k = shape.side(), l = shape.longer();
  return 4 * k * k + 8 * k + 64 * (k + l);
}

template <typename Real>
std::size_t polar_scratch(const MatrixShape& shape, const PolarPlan& plan) {
  const std::int64_t k = shape.side();
  const std::size_t square = scratch_bytes<Real>(shape.square());
  const std::size_t panel = scratch_bytes<Real>(panel_elements(shape));
  const std::size_t products = scratch_bytes<Real>(block_product_scratch(k));
  if (plan.steps.empty())
    return scratch_bytes<Real>(shape.elements()) + square + scratch_bytes<Real>(k) +
           scratch_bytes<Real>(svd_work_count(shape)) + scratch_bytes<int>(8 * k);
  return plan.on_gram ? 4 * square + 2 * panel + products : 2 * square + panel + products;
}

/// Of any block; `with_whole`: and of itself, where its plan needs all of it.
std::size_t most_scratch(std::span<const Stack> stacks, std::span<const PolarPlan> plans,
                         Type arithmetic, bool with_whole) {
  std::size_t most = 0;
  with_real(arithmetic, [&]<typename Real>(Real*) {
    for (std::size_t s = 0; s < stacks.size(); ++s) {
      const MatrixShape shape(stacks[s]);
      std::size_t bytes = polar_scratch<Real>(shape, plans[s]);
      if (with_whole && !plans[s].on_gram) bytes += scratch_bytes<Real>(shape.elements());
      most = std::max(most, bytes);
    }
  });
  return most;
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

/// F in memory, in whose place P comes.
template <typename Real>
struct StoredMatrix {
  MatrixShape shape;
  Real* x;

  void read(const Panel& panel, Real* f) const { copy_panel(shape, panel, x, f); }
  void take(const Panel& panel, Real* f) const { read(panel, f); }
  void set_norm_bound(double) const {}
  void write(const Panel& panel, const Real* p) const {
    for_each_span(shape, panel, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      std::copy_n(p + from, count, x + to);
    });
  }
};

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

  void read(const Panel& panel, Real* f) const {
    for_each_part(panel, gradients.masters, [&](const Work& work, std::int64_t at) {
      vector.read_filtered(work, gradients, f + at);
    });
  }
  void take(const Panel& panel, Real* f) const {
    for_each_part(panel, gradients.masters, [&](const Work& work, std::int64_t at) {
      vector.filter(work, gradients, nullptr, f + at);
    });
  }
  void set_norm_bound(double squared_norm) const { direction_norms[row] = squared_norm; }
  void write(const Panel& panel, const Real* p) const {
    for_each_part(panel, update.masters,
                  [&](const Work& work, std::int64_t at) { vector.update(work, update, p + at); });
  }

 private:
  /// body(work, its first element in the panel)
  template <typename Body>
  void for_each_part(const Panel& panel, const void* masters, const Body& body) const {
    for_each_span(shape, panel, [&](std::int64_t begin, std::int64_t at, std::int64_t count) {
      for_each_tile_part(context.elements, row, begin, count, [&](const Tile& part) {
        const Block& block = context.elements.blocks[row];
        body(work_on(context, part, masters), at + part.flat - block.flat - begin);
      });
    });
  }
};

}  // namespace

void CpuBackend::reserve_orthogonalization(std::span<const Stack> stacks,
                                           std::span<const PolarPlan> plans, Type arithmetic) {
  workers_.reserve(most_scratch(stacks, plans, arithmetic, false), stacks.size());
}

void CpuBackend::reserve_orthogonalization_and_update(std::span<const Stack> stacks,
                                                      std::span<const PolarPlan> plans,
                                                      Type arithmetic) {
  workers_.reserve(most_scratch(stacks, plans, arithmetic, true), stacks.size());
}

void CpuBackend::schedule_orthogonalization(std::span<const Stack> stacks,
                                            std::span<const Selection> selected,
                                            std::span<const PolarPlan> plans, double passes) {
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, selected[s].count,
                          polar_operations(plans[s], stacks[s].extent[0], stacks[s].extent[1]) +
                              passes * static_cast<double>(elements_of(stacks[s].extent)));
}

void CpuBackend::orthogonalize(const PassContext& phase, std::span<const Stack> stacks,
                               std::span<const Selection> selected,
                               std::span<const PolarPlan> plans, void* direction,
                               double* direction_norms) {
  if (*phase.proceed == 0) return;
  schedule_orthogonalization(stacks, selected, plans, 0);
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
  if (stacks.size() != selected.size() || stacks.size() != plans.size())
    throw std::logic_error("orthogonalize_and_update: " + std::to_string(stacks.size()) +
                           " stacks, " + std::to_string(selected.size()) + " selections, " +
                           std::to_string(plans.size()) + " plans");
  if (*context.proceed == 0) return;
  schedule_orthogonalization(stacks, selected, plans, element_passes);
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
      matrix.set_norm_bound(vector.squared_norm(p, shape.elements()));
      matrix.write(whole, p);
    });
  });
  finish_update(context, update);
}

}  // namespace shampoo::kernels
