// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/elementwise.h"

namespace shampoo::kernels {

/// Inputs of a vector kernel for one tile.
struct Work {
  const Tensors& tensors;
  const Tile& tile;
  const Block& block;
  const Coefficients& coefficients;
  Mode mode = Mode::unpreconditioned;
  double gradient_scale = 1;
  const float* masters = nullptr;  ///< null: the value is read even where the block has a master
};

/// Sums of squares over one tile; 0 where they are not wanted.
struct TileNorms {
  double grafting = 0, direction = 0;
};

/// The inner loops, compiled once for each level of the instruction set; all levels give the same
/// bits, because products and sums are never fused and sums have fixed lanes.
template <typename Real>
struct VectorKernels {
  /// Sum of the squares of the scaled gradient; NaN where an element is not finite.
  double (*scan)(const Tensors&, const Tile&, double gradient_scale);
  /// `to` <- G
  void (*gather)(const Work&, Real* to);
  /// `grafting` is the pass's, or null.
  TileNorms (*filter)(const Work&, const GradientPass&, const ElementwiseDirection* grafting);
  void (*update)(const Work&, const UpdatePass&);
  void (*filter_and_update)(const Work&, const GradientPass&, const UpdatePass&);
  void (*apply)(const Work&, const void* segments);
  void (*read_masters)(const Work&, float* masters);
  void (*read_slot)(const Work&, Real* slot);
  void (*pack_values)(const Work&, void* segments);
  void (*evaluate)(const Work&, const EvaluationPass&);

  double (*squared_norm)(const Real* x, std::int64_t count);
  /// Lower triangle L <- keep L + add g g^T; see Stack for `packed`
  void (*rank_one)(Real* factor, bool packed, std::int64_t side, const Real* g, Real keep,
                   Real add);
  /// Lower triangle L <- keep L + add C, C dense
  void (*blend)(Real* factor, bool packed, std::int64_t side, const Real* c, Real keep, Real add);
  /// y <- X x with the root X of a pair array
  void (*apply_root)(const Real* pair, std::int64_t side, const Real* x, Real* y);
  /// e <- keep e + add r^2
  void (*accumulate_squares)(Real* e, const Real* r, std::int64_t count, Real keep, Real add);
  /// r <- r / (sqrt(e scale) + epsilon)
  void (*divide_by_roots)(Real* r, const Real* e, std::int64_t count, Real scale, Real epsilon);
};

/// Kernels of one instruction set level.
struct VectorLevel {
  std::string_view name;
  const VectorKernels<float>& in_float;
  const VectorKernels<double>& in_double;

  template <typename Real>
  const VectorKernels<Real>& in() const {
    if constexpr (sizeof(Real) == sizeof(float))
      return in_float;
    else
      return in_double;
  }
};

VectorLevel base_level();
VectorLevel x86_v3_level();
VectorLevel x86_v4_level();

/// The highest level that this processor has.
VectorLevel best_level();

}  // namespace shampoo::kernels
