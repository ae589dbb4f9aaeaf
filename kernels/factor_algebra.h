// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/views.h"

namespace shampoo::kernels {

/// Kernels that work on the Kronecker factors of blocks.
class FactorAlgebra {
 public:
  virtual ~FactorAlgebra() = default;

  /// L_k <- keep L_k + add C_k, with C_k = G contracted with itself over all dimensions but k;
  /// lower triangles only. G is the scaled gradient plus l2 times the value (`masters`: see
  /// GradientPass). `selected` lists the blocks whose mode is not `absent`, as the modes say too.
  virtual void accumulate_factors(const PassContext& context, std::span<const Stack> stacks,
                                  std::span<const Selection> selected, const void* masters) = 0;

  /// L_k <- keep L_k + add C_k likewise, with C_k = H_k contracted with itself over all dimensions
  /// but k, and H_k = G contracted with the roots of all dimensions but k, or, for stacks with
  /// eigenbases, with diag(s_j) Q_j of their bases and scales [Lin 2025]. `normalizes`: C_k is
  /// divided by the product of all sides but that of k.
  virtual void accumulate_whitened_factors(const PassContext& context,
                                           std::span<const Stack> stacks,
                                           std::span<const Selection> selected, const void* masters,
                                           bool normalizes) = 0;

  /// direction <- direction contracted with the root of every dimension, in place, and its squared
  /// norms, of blocks whose mode is `preconditioned`. A GPU reads norms that filter() left, and, in
  /// float32, rounds operands to float16: P = F x_1 R_1 ... x_k R_k has errors of k 2^-10 of |F|
  /// x_1 |R_1| ... x_k |R_k|; elements below 2^-39 of the norm of F or the trace of R may vanish.
  virtual void precondition(const PassContext& context, std::span<const Stack> stacks,
                            std::span<const Selection> selected, void* direction,
                            double* direction_norms) = 0;
};

}  // namespace shampoo::kernels
