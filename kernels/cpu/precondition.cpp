// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "kernels/cpu/blas/blas.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/mode_products.h"

namespace shampoo::kernels {

namespace {

/// The root of a pair array, both triangles.
template <typename Real>
void mirror(const Real* pair, std::int64_t side, Real* dense) {
  for (std::int64_t i = 0; i < side; ++i) {
    const Real* const row = pair + i * (side + 1) + 1;
    for (std::int64_t j = i; j < side; ++j) dense[i * side + j] = dense[j * side + i] = row[j];
  }
}

/// The root X of one dimension as BLAS reads it, and its products. With one operand transposed,
/// which makes no difference to X, OpenBLAS's products without packing allocate nothing.
template <typename Real>
class Root {
 public:
  Root(const Real* pair, std::int64_t side, Real* dense)
      : side_(static_cast<int>(side)), is_dense_(side <= longest_dense_root) {
    if (is_dense_) mirror(pair, side, dense);
    data_ = is_dense_ ? dense : pair + 1;
  }

  /// Y <- X S, with S side x n; BLAS sees Y^T = S^T X.
  void from_left(int n, const Real* s, Real* y) const {
    if (is_dense_)
      blas::gemm('N', 'T', n, side_, side_, Real(1), s, n, data_, side_, Real(0), y, n);
    else
      blas::symm('R', 'L', n, side_, data_, side_ + 1, s, n, y, n);
  }

  /// Y <- S X, with S m x side; BLAS sees Y^T = X S^T.
  void from_right(int m, const Real* s, Real* y) const {
    if (is_dense_)
      blas::gemm('T', 'N', side_, m, side_, Real(1), data_, side_, s, side_, Real(0), y, side_);
    else
      blas::symm('L', 'L', side_, m, data_, side_ + 1, s, side_, y, side_);
  }

 private:
  int side_;
  bool is_dense_;
  const Real* data_ = nullptr;
};

template <typename Real>
void contract(const Dimension& at, const Root<Real>& root, const Real* from, Real* to) {
  if (at.after == 1) return root.from_right(static_cast<int>(at.before), from, to);
  const std::int64_t slice = at.side * at.after;
  for (std::int64_t s = 0; s < at.before; ++s)
    root.from_left(static_cast<int>(at.after), from + s * slice, to + s * slice);
}

/// D <- D contracted with the root of every dimension
template <typename Real>
void precondition_block(const VectorKernels<Real>& vector, const Stack& stack, std::int64_t index,
                        Real* direction, Scratch& scratch) {
  const std::int64_t elements = elements_of(stack.extent);
  Real* from = direction;
  Real* to = scratch.take<Real>(elements);
  Real* const dense = scratch.take<Real>(longest_dense_root * longest_dense_root);

  for (std::size_t k = 0; k < stack.extent.size(); ++k) {
    if (stack.factors[k] == nullptr) continue;
    const Dimension at = dimension_of(stack.extent, k);
    const Real* const pair =
        static_cast<const Real*>(stack.factors[k]) + index * at.side * (at.side + 1);
    if (at.before * at.after == 1)
      vector.apply_root(pair, at.side, from, to);
    else
      contract(at, Root<Real>(pair, at.side, dense), from, to);
    std::swap(from, to);
  }
  if (from != direction) std::copy(from, from + elements, direction);
}

}  // namespace

void CpuBackend::precondition(const PassContext& phase, std::span<const Stack> stacks,
                              std::span<const Selection> selected, void* direction,
                              double* direction_norms) {
  if (*phase.proceed == 0) return;
  workers_.schedule.clear();
  for (std::size_t s = 0; s < stacks.size(); ++s)
    workers_.schedule.add(s, selected[s].count, product_cost(stacks[s], 2));

  const auto run = [&]<typename Real>(Real* all) {
    const VectorKernels<Real>& vector = level_.in<Real>();
    workers_.run_schedule([&](std::size_t s, std::int64_t member, Scratch& scratch) {
      const std::int64_t index = selected[s].blocks[member];
      const Block& block = phase.elements.blocks[stacks[s].first_block + index];
      Real* const d = all + block.flat;
      precondition_block(vector, stacks[s], index, d, scratch);
      if (direction_norms != nullptr)
        direction_norms[stacks[s].first_block + index] = vector.squared_norm(d, block.elements);
    });
  };
  if (phase.elements.arithmetic == Type::float64)
    run(static_cast<double*>(direction));
  else
    run(static_cast<float*>(direction));
}

}  // namespace shampoo::kernels
