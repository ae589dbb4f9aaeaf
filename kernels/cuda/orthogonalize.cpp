// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gemm/mode_product.h"
#include "kernels/cuda/gemm/polar_kernels.h"
#include "kernels/cuda/mode_tasks.h"

namespace shampoo::kernels::cuda {

namespace {

void* element_at(void* data, Type type, std::int64_t elements) {
  return static_cast<char*>(data) + elements * static_cast<std::int64_t>(size_of(type));
}

/// R <- X X^T, of a tall X: X^T X.
Product gram_product(const PolarStack& s, void* x, const SquareMatrixBatch& r) {
  const bool wide = s.rows <= s.columns;
  const std::int64_t k = s.side(), depth = wide ? s.columns : s.rows;
  const Matrices left{x, s.type, s.columns, s.stride, !wide};
  const Matrices right{x, s.type, s.columns, s.stride, wide};
  return {k, k, depth, r.count, left, right, r.data, s.type, k, k * k, 1, 0};
}

/// Y <- alpha Q X, of a tall X: alpha X Q.
Product polynomial_product(const PolarStack& s, const SquareMatrixBatch& q, void* x, void* y,
                           double alpha) {
  const bool wide = s.rows <= s.columns;
  const Matrices matrix{x, s.type, s.columns, s.stride, false};
  return {s.rows,
          s.columns,
          s.side(),
          q.count,
          wide ? dense(q) : matrix,
          wide ? matrix : dense(q),
          y,
          s.type,
          s.columns,
          s.stride,
          alpha,
          0};
}

/// X <- U^T V, of the last k eigenvectors (u, v) of H.
Product singular_product(const PolarStack& s, const SquareMatrixBatch& h, void* x) {
  const std::int64_t n = h.side, k = s.side();
  const Matrices u{element_at(h.data, s.type, (n - k) * n), s.type, n, n * n, true};
  const Matrices v{element_at(h.data, s.type, (n - k) * n + s.rows), s.type, n, n * n, false};
  return {s.rows, s.columns, k, h.count, u, v, x, s.type, s.columns, s.stride, 1, 0};
}

}  // namespace

void DeviceBackend::reserve_orthogonalization(std::span<const Stack> stacks,
                                              std::span<const PolarPlan> plans, Type arithmetic) {
  workspace_.reserve_orthogonalization(stacks, plans, arithmetic);
  std::vector<Product> products;
  std::int64_t offset = 0;
  for (std::size_t s = 0; s < stacks.size(); ++s) {
    const PolarStack stack(stacks[s], arithmetic);
    // As aligned as the direction.
    void* const x = element_at(workspace_.dense(stacks, arithmetic), arithmetic, offset);
    offset += stack.elements();
    if (plans[s].steps.empty()) {
      const std::int64_t side = stack.rows + stack.columns;
      device_->reserve_eigen(side);
      add_square_products(side, Type::float64, products);
      products.push_back(singular_product(
          stack, {.type = arithmetic, .side = side, .count = 1, .data = workspace_.polar()}, x));
      continue;
    }
    const SquareMatrixBatch r{
        .type = arithmetic, .side = stack.side(), .count = 1, .data = workspace_.polar()};
    products.push_back(gram_product(stack, x, r));
    products.push_back(polynomial_product(stack, r, x, x, 1));
  }
  device_->reserve_products(products);
}

void DeviceBackend::orthogonalize(const PassContext& phase, std::span<const Stack> stacks,
                                  std::span<const Selection>, std::span<const PolarPlan> plans,
                                  void* direction, double* direction_norms) {
  if (stacks.empty()) return;
  const Type arithmetic = phase.elements.arithmetic;
  const ProductPhase p(phase, workspace_.dense(stacks, arithmetic));
  const bool keeps_others = plans.front().keeps_others;
  void* const x = keeps_others ? workspace_.second_dense(stacks, arithmetic) : direction;
  double* const norms = workspace_.polar_norms();
  norm_directions(*device_, p, direction, norms);
  with_real(arithmetic, [&](auto* tag) {
    using Real = Element<decltype(tag)>;
    device_->launch(p.elements.tile_count,
                    ScaleToUnitNorm<Real>{p, direction, x, norms, plans.front().floor});
  });
  std::int64_t offset = 0;
  for (std::size_t s = 0; s < stacks.size(); ++s) {
    PolarStack stack(stacks[s], arithmetic);
    stack.direction = element_at(x, arithmetic, offset);
    stack.dense = element_at(p.dense, arithmetic, offset);
    offset += stack.elements();
    if (plans[s].steps.empty())
      decompose(stack, plans[s], norms);
    else
      iterate(stack, plans[s]);
  }
  if (keeps_others)
    take_directions(*device_, ProductPhase(phase, x), direction, direction_norms);
  else
    norm_directions(*device_, p, direction, direction_norms);
}

/// Also of blocks that are not preconditioned: a library takes all matrices of a batch.
void DeviceBackend::iterate(const PolarStack& stack, const PolarPlan& plan) {
  const bool odd = plan.steps.size() % 2 == 1;
  if (odd)
    device_->copy(stack.dense, stack.direction,
                  static_cast<std::size_t>(stack.elements()) * size_of(stack.type));
  const std::int64_t k = stack.side(), chunk = stack.chunk();
  SquareMatrixBatch r{.type = stack.type, .side = k, .data = workspace_.polar()};
  SquareMatrixBatch split = r;
  split.data = element_at(r.data, stack.type, chunk * k * k);
  for (std::int64_t first = 0; first < stack.count; first += chunk) {
    r.count = split.count = std::min(chunk, stack.count - first);
    void* x = element_at(odd ? stack.dense : stack.direction, stack.type, first * stack.stride);
    void* y = element_at(odd ? stack.direction : stack.dense, stack.type, first * stack.stride);
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const auto [a, b, c] = plan.steps[s];
      const bool last = s + 1 == plan.steps.size();
      device_->multiply(gram_product(stack, x, r));
      convert({&r, 1}, {&split, 1}, Form::split);
      // R is as symmetric as the library's sums make it; Q, in its place, is so bit for bit.
      multiply_symmetric({&split, 1}, {&split, 1}, Form::split,
                         {.product = c, .first = b, .identity = a}, {&split, 1}, {&r, 1},
                         Form::dense);
      device_->multiply(polynomial_product(stack, r, x, y, last ? plan.scale : 1));
      std::swap(x, y);
    }
  }
}

/// The positive eigenvalues of [0 X; X^T 0] are the singular values of X, with eigenvectors
/// (u, v) / sqrt(2) [Golub 2013, 8.6.1].
void DeviceBackend::decompose(const PolarStack& stack, const PolarPlan& plan, const double* norms) {
  const std::int64_t n = stack.rows + stack.columns, chunk = stack.decomposition_chunk();
  SquareMatrixBatch h{.type = stack.type, .side = n, .data = workspace_.polar()};
  h.values = element_at(h.data, stack.type, chunk * n * n);
  // Numbers of 4 or 8 bytes lie before the flags.
  auto* const failed = static_cast<std::int32_t*>(element_at(h.values, stack.type, chunk * n));
  for (std::int64_t first = 0; first < stack.count; first += chunk) {
    h.count = std::min(chunk, stack.count - first);
    void* const x = element_at(stack.direction, stack.type, first * stack.stride);
    device_->launch(h.count * row_parts(n), Embed{h, stack.rows, x, stack.stride});
    eigh({&h, 1}, Eigensolver::divide_and_conquer, failed);
    device_->launch(h.count,
                    WeighSingularVectors{h, stack.rows, plan.scale, plan.nuclear,
                                         norms + stack.first_block + first, plan.floor, failed});
    device_->multiply(singular_product(stack, h, x));
  }
}

}  // namespace shampoo::kernels::cuda
