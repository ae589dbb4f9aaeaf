// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/strided_span.h"
#include "kernels/cuda/gemm/unpack_roots.h"
#include "kernels/cuda/launch/reduce.h"
#include "kernels/rules/arithmetic.h"

/// Directions of float32 from products of float16. F and every root are multiplied by powers of
/// two, f and r, and every product by 2^-15:
///
///     F' = f F, 2^14 <= |F'| < 2^15;  R' = r R, 2^14 <= tr R' < 2^15;  T' = 2^-15 R' F'^T
///
/// with Frobenius norms. A definite R has no eigenvalue above tr R, so |T'| <= |F'| however many
/// roots follow, and no element can overflow. Rounding changes an element x by at most
/// max(2^-11 |x|, 2^-25), which is 2^-39 of |F| or tr R, or 2^-38 of their product. The sums of the
/// last root are float32, and divided by all powers of two when they are taken.
namespace shampoo::kernels::cuda {

/// Of every such product.
inline constexpr double half_product_scale = 0x1p-15;

/// The power of two s with 2^14 <= s x < 2^15, as float32 has it; 1 where x is 0, negative or not
/// finite.
SHAMPOO_BOTH inline float operand_scale(double x) {
  const auto biased = static_cast<int>(bits_to<std::uint64_t>(x) >> 52);  // and the sign
  if (biased == 0 || biased >= 2047) return 1;
  const int exponent = 14 - (biased - 1023);
  const int kept = exponent > 126 ? 126 : exponent < -126 ? -126 : exponent;
  return float_of(static_cast<std::uint32_t>(kept + 127) << 23);
}

/// f, from the squared norm of F.
SHAMPOO_BOTH inline float direction_scale(double squared_norm) {
  return operand_scale(root(squared_norm));
}

/// Blocks of a stack, of which each root of a dimension is scaled.
struct ScaleTask {
  std::int64_t tiles = 1;
  std::int64_t first_block = 0;  ///< of the stack
  std::int64_t side = 0;
  const void* arrays = nullptr;  ///< of factors with roots; null: products are of float32
  FactorLayout layout = FactorLayout::with_root;
};

/// OperandScales of preconditioned blocks. One block of threads per block.
struct ScaleOperands {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads];
  };

  ProductPhase phase;
  TaskList<ScaleTask> list;
  const double* squared_norms = nullptr;  ///< of F, per block
  bool is_first = false;                  ///< of the dimensions

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const;
};

/// Blocks of a stack, of `elements` each.
struct NarrowTask {
  std::int64_t tiles = 0;
  std::int64_t first_block = 0;  ///< of the stack
  std::int64_t elements = 0;
  void* to = nullptr;  ///< flat, of the memory of float32
};

/// F' <- F of preconditioned blocks. One block of threads per so many elements.
struct NarrowDirections {
  static constexpr int threads = 256;
  static constexpr std::int64_t tile = tile_elements;
  struct Shared {};

  ProductPhase phase;
  TaskList<NarrowTask> list;
  const void* direction = nullptr;
  const double* squared_norms = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const;
};

template <typename Threads>
SHAMPOO_BOTH void ScaleOperands::operator()(Threads& block, Shared& shared) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member, n = task.side;
  if (!phase.preconditions(row)) return;
  const OperandScales scales = operand_scales(phase.elements, row);
  if (task.arrays == nullptr) {
    block.each([&](int thread) {
      if (thread == 0) scales.result = 1;
    });
    return;
  }
  const FactorLayout layout = task.layout;
  const float* const array =
      static_cast<const float*>(task.arrays) + member * array_elements(layout, n, sizeof(float));
  block.each([&](int thread) {
    double sum = 0;
    for (std::int64_t i = thread; i < n; i += threads) {
      const auto x = static_cast<double>(stored_root(layout, array, n, i, i));
      sum += x < 0 ? -x : x;
    }
    shared.sums[thread] = sum;
  });
  reduce(block, shared.sums, [](double a, double b) { return a + b; });
  block.each([&](int thread) {
    if (thread != 0) return;
    const double before =
        is_first ? 1 / static_cast<double>(direction_scale(squared_norms[row])) : scales.result;
    scales.root = static_cast<double>(operand_scale(shared.sums[0]));
    scales.result = before / (scales.root * half_product_scale);
  });
}

template <typename Threads>
SHAMPOO_BOTH void NarrowDirections::operator()(Threads& block, Shared&) const {
  const auto [task, member, number] = list.item(block.index());
  const std::int64_t row = task.first_block + member;
  if (!phase.preconditions(row)) return;
  const std::int64_t flat = phase.elements.blocks[row].flat, first = number * tile;
  const std::int64_t rest = task.elements - first;
  const auto count = static_cast<std::int32_t>(rest < tile ? rest : tile);
  const float scale = direction_scale(squared_norms[row]);
  const StridedSpan from =
      packed(static_cast<float*>(const_cast<void*>(direction)) + flat + first, Type::float32);
  const StridedSpan to = packed(static_cast<Float16*>(task.to) + 2 * flat + first, Type::float16);
  block.each([&](int thread) {
    for (std::int32_t i = thread * group_size; i < count; i += threads * group_size) {
      float x[group_size];
      read_as<float>(from, i, count - i, x);
      for (float& element : x) element *= scale;
      write_as<Float16>(to, i, count - i, x);
    }
  });
}

}  // namespace shampoo::kernels::cuda
