// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/mode_chain.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/gemm/half_operands.h"

namespace shampoo::kernels::cuda {

namespace {

/// True if the longest side, and all others together, are longer than a tile of the kernel.
bool has_long_sides(const Stack& stack) {
  if (stack.extent.empty()) return false;
  const auto longest = std::ranges::max_element(stack.extent);
  const ModeShape shape =
      mode_shape(stack.extent, static_cast<std::size_t>(longest - stack.extent.begin()));
  return std::min(shape.side, shape.before * shape.after) > mode_tile;
}

}  // namespace

std::vector<ModeMatrices> mode_uses(const Stack& stack) {
  ModeMatrices use;
  use.is_basis = !stack.bases.empty();
  if (use.is_basis) use.arrays = &Stack::bases;
  std::vector<ModeMatrices> uses{use};
  if (use.is_basis) {
    use.transposed = true;
    uses.push_back(use);
    use.transposed = false;
  }
  use.accumulates = true;
  for (use.except = 0; stack.whitens && use.except < stack.extent.size(); ++use.except)
    uses.push_back(use);
  return uses;
}

ModeChain::ModeChain(const Stack& stack, const ModeMatrices& matrices)
    : stack_(stack), matrices_(matrices) {
  const std::size_t order = stack.extent.size();
  if (matrices.except >= order && matrices.except != ModeMatrices{}.except) return;
  for (std::size_t k = 0; k < order; ++k) length_ += takes_part(k);
  const bool all = static_cast<std::size_t>(length_) == order;
  const bool outer = length_ == 1 && (takes_part(0) || takes_part(order - 1));
  by_library_ = (all || outer) && has_long_sides(stack);
}

std::size_t ModeChain::dimension(int step) const {
  int number = by_library_ ? length_ - 1 - step : step;
  std::size_t k = 0;
  while (!takes_part(k) || number-- > 0) ++k;
  return k;
}

ModeTask ModeChain::task(int step, const void* from, void* to) const {
  const std::size_t k = dimension(step);
  ModeTask task;
  task.first_block = stack_.first_block;
  task.shape = mode_shape(stack_.extent, k);
  task.tiles = ModePlane(task.shape).tiles(mode_tile);
  task.matrices = matrices(k);
  task.layout = stack_.layout;
  task.is_basis = matrices_.is_basis;
  task.transposed = matrices_.transposed;
  task.from = from;
  task.to = to;
  return task;
}

Product ModeChain::product(int step, Type type, const void* dense, const void* from,
                           void* to) const {
  const ModeShape shape = mode_shape(stack_.extent, dimension(step));
  const std::int64_t n = shape.side, rest = shape.before * shape.after;
  const bool narrows = matrices_.narrows(type);
  const auto stride = [&](Type of) {
    return stack_.stride * (narrows && of == Type::float16 ? 2 : 1);
  };
  const Type operands = narrows ? Type::float16 : type;
  const bool last_alone = length() == 1 && shape.after == 1;
  const bool first_alone = length() == 1 && !last_alone;
  Product p;
  p.rows = p.depth = n;
  p.columns = rest;
  p.count = stack_.count;
  p.a = {dense, operands, n, n * n, matrices_.transposed};
  p.b = {from, operands, first_alone ? rest : n, stride(operands), !first_alone};
  if (last_alone) {
    p.rows = rest;
    p.columns = n;
    std::swap(p.a, p.b);
    p.a.transposed = !p.a.transposed;
    p.b.transposed = !p.b.transposed;
  }
  p.c = to;
  p.c_type = step + 1 < length() ? operands : type;
  p.c_row = p.columns;
  p.c_stride = stride(p.c_type);
  if (narrows) p.alpha = half_product_scale;
  return p;
}

std::size_t dense_root_bytes(const Stack& stack, Type arithmetic) {
  if (stack.layout == FactorLayout::packed || !has_long_sides(stack)) return 0;
  std::int64_t n = 0;
  for (std::size_t k = 0; k < stack.extent.size(); ++k)
    if (stack.factors[k] != nullptr) n = std::max(n, stack.extent[k]);
  const auto bytes = static_cast<std::size_t>(stack.count * n * n) * size_of(arithmetic);
  constexpr std::size_t alignment = 256;
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace shampoo::kernels::cuda
