// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/tile_work.h"

namespace shampoo::kernels {

/// Where G of blocks comes from.
struct GradientContext {
  const PassContext& phase;
  const VectorLevel& level;
  const float* masters;
};

/// to <- G of a block: the scaled gradient plus L2 decay, its elements back to back.
template <typename Real>
void gather_gradient(const GradientContext& context, std::int64_t block, Real* to) {
  const TileTable& elements = context.phase.elements;
  const Block& b = elements.blocks[block];
  for (std::int32_t k = 0; k < b.tile_count; ++k) {
    const Tile& tile = elements.tiles[b.first_tile + k];
    context.level.in<Real>().gather(work_on(context.phase, tile, context.masters),
                                    to + (tile.flat - b.flat));
  }
}

/// G of a block. Order 2 may have a distance between rows; 0: all elements are back to back.
template <typename Real>
struct GradientRows {
  const Real* data = nullptr;
  std::int64_t stride = 0;
  double scale = 1;  ///< G = scale data, but for its sign
};

/// True if G is the caller's gradient times a number, and can be read there, by BLAS too.
template <typename Real>
bool is_in_place(const PassContext& phase, const Stack& stack, std::int64_t block) {
  const Block& b = phase.elements.blocks[block];
  const std::size_t order = stack.extent.size();
  const bool has_rows =
      order == 1 || (order == 2 && stack.extent[1] > 1 && b.gradient_row >= stack.extent[1] &&
                     b.gradient_row <= std::numeric_limits<int>::max());
  return b.regular && has_rows && b.gradient_column == 1 && !phase.limits_gradients() &&
         phase.coefficients[block].l2 == 0 &&
         phase.elements.tensors.gradient_types[b.tensor] ==
             (sizeof(Real) == sizeof(float) ? Type::float32 : Type::float64);
}

/// The memory that G of a block is read from.
template <typename Real>
RowsAhead gradient_ahead(const GradientContext& context, const Stack& stack, std::int64_t block) {
  const Block& b = context.phase.elements.blocks[block];
  const Tensors& tensors = context.phase.elements.tensors;
  if (!is_in_place<Real>(context.phase, stack, block)) return {};
  const Real* const gradient = static_cast<const Real*>(tensors.gradients[b.tensor]) + b.gradient;
  if (stack.extent.size() == 1) return ahead(gradient, b.elements);
  const auto bytes = static_cast<std::int64_t>(sizeof(Real));
  return {gradient, stack.extent[0], stack.extent[1] * bytes, b.gradient_row * bytes};
}

/// G, or where it may be `scaled` a multiple, where it lies, or else copied to `buffer`.
template <typename Real>
GradientRows<Real> fetch_gradient_rows(const GradientContext& context, const Stack& stack,
                                       std::int64_t block, Real* buffer, bool scaled) {
  const TileTable& elements = context.phase.elements;
  const Block& b = elements.blocks[block];
  const double scale = context.phase.scale_of(b.tensor);
  const bool is_exact = scale * context.phase.coefficients[block].gradient_sign == 1;
  // Beyond that, squares of what is not scaled yet may leave float32's range.
  const bool may_wait = scaled && scale >= 0x1p-32 && scale <= 1;
  if ((may_wait || is_exact) && is_in_place<Real>(context.phase, stack, block)) {
    const Real* const gradient = static_cast<const Real*>(elements.tensors.gradients[b.tensor]);
    return {gradient + b.gradient, stack.extent.size() == 1 ? 0 : b.gradient_row, scale};
  }
  gather_gradient(context, block, buffer);
  return {buffer, 0};
}

}  // namespace shampoo::kernels
