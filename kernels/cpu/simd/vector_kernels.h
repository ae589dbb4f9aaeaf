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
  double gradient_limit = __builtin_huge_val();
};

/// Sums of squares over one tile; 0 where they are not wanted.
struct TileNorms {
  double grafting = 0, direction = 0;
};

/// Symmetric, with the diagonal d and the n - 1 elements e beside it.
struct TridiagonalMatrix {
  std::int64_t side = 0;
  const double *d = nullptr, *e = nullptr;
};

/// Of fractions weight / (z + pole).
struct Poles {
  std::int64_t count = 0;  ///< <= most_partial_fractions
  const double *poles = nullptr, *weights = nullptr;
};

/// Elements of the scratch memory of sum_resolvents().
constexpr std::int64_t resolvent_scratch(std::int64_t side, std::int64_t poles) {
  return (2 * side + 64) * poles;
}

/// The inner loops, compiled once for each level of the instruction set; all levels give the same
/// bits, because products and sums are never fused and sums have fixed lanes.
template <typename Real>
struct VectorKernels {
  /// Sum of the squares of the scaled gradient; NaN where an element is not finite.
  double (*scan)(const Tensors&, const Tile&, double gradient_scale);
  /// `to` <- G
  void (*gather)(const Work&, Real* to);
  /// `grafting` is the pass's, or null; `p`: out, the tile's P.
  TileNorms (*filter)(const Work&, const GradientPass&, const ElementwiseDirection* grafting,
                      Real* p);
  /// `f`: out, F, as filter() computes it. M stays.
  void (*read_filtered)(const Work&, const GradientPass&, Real* f);
  void (*graft)(const Work&, const UpdatePass&, void* direction);
  DirectionSums (*measure)(const Work&, const UpdatePass&);
  /// Neither the projection nor, where there is one, the average after it.
  void (*update)(const Work&, const UpdatePass&, const Real* p);
  void (*filter_and_update)(const Work&, const GradientPass&, const UpdatePass&);
  double (*new_value_norm)(const Work&, const UpdatePass&);
  void (*project_values)(const Work&, const UpdatePass&);
  void (*average_values)(const Work&, const UpdatePass&);
  void (*apply)(const Work&, const void* segments);
  /// Elementwise::accumulate(), of one tile.
  void (*accumulate_tile)(const Work&, double keep, double add);
  void (*read_masters)(const Work&, float* masters);
  void (*read_slot)(const Work&, Real* slot);
  void (*pack_values)(const Work&, void* segments);
  void (*evaluate)(const Work&, const EvaluationPass&);

  double (*squared_norm)(const Real* x, std::int64_t count);
  /// Lower triangle L <- keep L + add g g^T; see FactorLayout for `packed`
  void (*rank_one)(Real* factor, bool packed, std::int64_t side, const Real* g, Real keep,
                   Real add);
  /// Lower triangle L <- keep L + add C, C dense
  void (*blend)(Real* factor, bool packed, std::int64_t side, const Real* c, Real keep, Real add);
  /// y <- X x with the root X of a pair array
  void (*apply_root)(const Real* pair, std::int64_t side, const Real* x, Real* y);
  /// X <- sum over the poles of weight (T + pole I)^-1, n x n; T + pole I must be positive
  /// definite. `pivots`: n numbers for every pole.
  void (*sum_resolvents)(const TridiagonalMatrix&, const Poles&, double* pivots, Real* scratch,
                         Real* x);
  /// Dense <- the root of an array that has it in float16; exact
  void (*mirror_root)(const Real* pair, std::int64_t side, Real* dense);
  void (*widen_root)(const Real* array, std::int64_t side, Real* dense);
  /// V <- keep V + add G^2
  void (*accumulate_squares)(const SecondMoment& c, const Real* g, std::int64_t count, Real* v);
  /// P <- F / ((V scale)^exponent + epsilon), in place
  void (*divide_by_power)(const SecondMoment& c, double exponent, const Real* v, std::int64_t count,
                          Real* f);
  /// V and M <- G, F <- M and G, P <- F, in place of G; see FilterRule. M may be null where nothing
  /// is filtered.
  void (*precondition_gradient)(const Coefficients& c, double exponent, Real* g, std::int64_t count,
                                Real* v, Real* m);
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
  /// body(kernels) of the arithmetic; returns what it returns.
  template <typename Body>
  auto with(bool double_precision, Body&& body) const {
    return double_precision ? body(in_double) : body(in_float);
  }
};

VectorLevel base_level();
VectorLevel x86_v3_level();
VectorLevel x86_v4_level();

/// The highest level that this processor has.
VectorLevel best_level();

}  // namespace shampoo::kernels
