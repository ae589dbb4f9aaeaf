// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/gemm/mode_product.h"

/// Products along the dimensions of blocks: how the shape of a stack decides what computes them.
namespace shampoo::kernels::cuda {

inline ModeShape mode_shape(std::span<const std::int64_t> extent, std::size_t k) {
  ModeShape shape;
  for (std::size_t i = 0; i < extent.size(); ++i)
    (i < k ? shape.before : i == k ? shape.side : shape.after) *= extent[i];
  return shape;
}

/// Products of all blocks with one matrix per dimension.
struct ModeMatrices {
  std::vector<void*> Stack::*arrays = &Stack::factors;  ///< roots of pair arrays, or bases
  bool is_basis = false;
  bool transposed = false;   ///< of bases
  std::size_t except = -1;   ///< a dimension that is left alone; of stacks that have it
  bool accumulates = false;  ///< for all present blocks; otherwise for preconditioned ones

  /// True if operands are scaled and rounded to float16 (half_operands.h): those of directions are,
  /// statistics and what bases rotate are not.
  bool narrows(Type arithmetic) const {
    return arithmetic == Type::float32 && !is_basis && !accumulates;
  }
};

/// All that reserve() must prepare for a stack.
std::vector<ModeMatrices> mode_uses(const Stack& stack);

/// The contractions of the blocks of one stack, one step each, of one array into another.
///
/// Blocks with two long sides go through a library, all of a stack at once, whatever their modes:
/// every step contracts the last dimension, which comes out as the first one, so that both operands
/// of every product are read along the sum (what matrix units take) and the elements are in order
/// again after the last step,
///
///     Y (n x rest) <- M (n x n) X^T, X (rest x n).
///
/// If one dimension alone takes part, the product is M X or X M^T. All others go through a kernel,
/// dimension by dimension.
class ModeChain {
 public:
  ModeChain(const Stack& stack, const ModeMatrices& matrices);

  int length() const { return length_; }
  bool is_by_library() const { return by_library_; }
  /// Roots that step needs as dense matrices are those of this dimension.
  std::size_t dimension(int step) const;
  /// Of a chain that is not by a library; arrays are flat, as are those of the next one.
  ModeTask task(int step, const void* from, void* to) const;
  /// `dense`, from, to: those of the first block. Where operands are narrowed, only the last step
  /// gives float32; halves of a block lie where its numbers of float32 would start.
  Product product(int step, Type type, const void* dense, const void* from, void* to) const;

 private:
  void* matrices(std::size_t k) const {
    const std::vector<void*>& arrays = stack_.*matrices_.arrays;
    return k < arrays.size() ? arrays[k] : nullptr;
  }
  bool takes_part(std::size_t k) const { return matrices(k) != nullptr && k != matrices_.except; }

  const Stack& stack_;
  const ModeMatrices& matrices_;
  int length_ = 0;
  bool by_library_ = false;
};

/// Bytes of the dense roots of any one dimension of a stack, as products need them; a multiple of
/// 256.
std::size_t dense_root_bytes(const Stack& stack, Type arithmetic);

}  // namespace shampoo::kernels::cuda
