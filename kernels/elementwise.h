// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/rules/direction_rule.h"
#include "kernels/step_records.h"
#include "kernels/views.h"

namespace shampoo::kernels {

/// A preconditioner or grafting that works on each element alone; its SecondMoment is in the
/// coefficients.
struct ElementwiseDirection {
  DirectionRule rule = DirectionRule::identity;
  void* second_moment = nullptr;  ///< [backend] V; null for rules without it
  void* companion = nullptr;      ///< [backend] X of maximal, A of centered; null for the others
};

/// One pass over the gradients of blocks of a virtual group. Slots hold their elements in the
/// arithmetic type.
struct GradientPass {
  const void* masters = nullptr;  ///< [backend] float32, read for L2 decay where a block has one
  void* first_moment = nullptr;   ///< [backend] M; may be null where no block filters
  /// V is updated wherever the gradient is present. Preconditioned blocks take this direction,
  /// others the grafting's.
  ElementwiseDirection preconditioner = {};
  std::optional<ElementwiseDirection> grafting = {};
  void* direction = nullptr;  ///< [backend] out: P; only filter() writes it
  /// [backend] out, per preconditioned block with grafting: squared norm of the grafting's
  /// direction. Null without grafting.
  double* grafting_norms = nullptr;
  /// [backend] out, per preconditioned block: squared norm of P. Null where a preconditioner of
  /// matrices computes them.
  double* direction_norms = nullptr;
};

/// How steps are averaged: see UpdateRule, and IterateRule for the last one.
enum class AveragingRule : std::uint8_t {
  none,
  momentum,  ///< B <- momentum B + damp P ; P <- B; neither where momentum is 0
  nesterov,  ///< the same B ; P <- damp P + momentum B
  iterate    ///< Z <- keep Z + step P ; U <- weight step P + pull (keep Z - W), with the old Z
};

/// An average of the values that an update leaves: see ValueAverageRule.
struct ValueAverage {
  const double* weights = nullptr;  ///< [backend] per block; where it is 0, A stays
  void* average = nullptr;          ///< [backend] A; null: none
  bool replaces = false;            ///< W <- A, too, in blocks that send values
};

/// Sums over the elements of one block.
struct DirectionSums {
  double direction = 0;  ///< P . P, of the P that is stored
  double mixed = 0;      ///< P . W
  double values = 0;     ///< W . W
};

enum class ScalingRule : std::uint8_t {
  none,
  clip,  ///< P <- P min(1, limit / rms(P)), before decay is added
  trust  ///< D <- D min(most, limit |W| / |D|), with D = P + decay W; D where a norm is 0
};

/// A factor on directions that have the grafting's norm: see direction_factors().
struct DirectionScaling {
  ScalingRule rule = ScalingRule::none;
  double limit = 1, most = 1;
  /// [backend] per block, out of measure_directions(). A block whose P is not finite takes no step.
  /// Null: directions are not measured, and the rule is none.
  const DirectionSums* sums = nullptr;
};

enum class ProjectionRule : std::uint8_t {
  none,
  bounds,    ///< W <- min(max(W, lower), upper)
  unit_norm  ///< W <- W / |W| ; W where |W| is 0 or not finite
};

/// What becomes of new values of blocks that send values, before they join their average.
struct ValueProjection {
  ProjectionRule rule = ProjectionRule::none;
  double lower = 0, upper = 0;
  double* squared_norms = nullptr;  ///< [backend] out, per block; null but for unit_norm
};

/// The end of the step of blocks of a virtual group.
struct UpdatePass {
  AveragingRule averaging = AveragingRule::none;
  void* averaging_state = nullptr;         ///< [backend] B or Z; null without averaging
  const void* direction = nullptr;         ///< [backend] P; only update() reads it
  const double* grafting_norms = nullptr;  ///< [backend] squared; null: no grafting
  /// [backend] squared; without grafting, upper bounds will do. A block whose norm, or factor to
  /// the grafting's norm, is not finite keeps values, masters and averaging state. Null: no block
  /// has a norm.
  const double* direction_norms = nullptr;
  NonFiniteDirections* non_finite = nullptr;  ///< [backend] in and out: counts such blocks
  void* masters = nullptr;                    ///< [backend] float32
  /// [backend] out; null: the values change instead, as apply() would change them.
  void* segment = nullptr;
  const double* rate_factor = nullptr;  ///< [backend] of all learning rates; null: 1
  DirectionScaling scaling = {};
  ValueProjection projection = {};  ///< of blocks that take their step
  ValueAverage value_average = {};  ///< of blocks that take their step
};

/// Evaluation values of a virtual group.
struct EvaluationPass {
  const double* extrapolations = nullptr;  ///< [backend] per block: 1 - 1 / mu_y; 1: Z itself
  const void* iterate = nullptr;           ///< [backend] Z, or an average of values
  const void* masters = nullptr;           ///< [backend] float32, W where a block has one
  void* segment = nullptr;                 ///< [backend] out, in the wire type
};

/// Kernels that work on each element alone, each in a number of launches that does not depend on
/// the number of tiles.
class Elementwise {
 public:
  virtual ~Elementwise() = default;

  /// Computes the norm of all gradients, and whether every element is finite, in the table's
  /// arithmetic or in float32 (Block::scans_in_float32). With `skips`, a non-finite one clears the
  /// proceed flag. The result is in the backend's memory.
  virtual void scan(const TileTable& gradients, const double* gradient_scale, bool skips,
                    ScanResult* result) = 0;

  /// scales[t] <- *gradient_scale min(1, max_norm / |g_t|) for every tensor t, one block each, of
  /// the last scan of this table: see clip_factor().
  virtual void scale_tensors(const TileTable& gradients, double max_norm,
                             const double* gradient_scale, double* scales) = 0;

  /// values <- *keep values + *add gradients, for tensors whose gradient is present; for the others
  /// values <- *keep values. Tensors with a null value are left alone. Where *keep is 0 the old
  /// values are not read.
  virtual void accumulate(const TileTable& elements, const double* keep, const double* add) = 0;

  /// masters <- values, for blocks that have one; slot <- values, in the arithmetic type. Either
  /// may be null.
  virtual void read_values(const TileTable& elements, void* masters, void* slot) = 0;

  /// G = clip(gradient_scale gradient_sign g) + l2 W, to the gradient_limit; V of both directions;
  /// M, F and P.
  virtual void filter(const PassContext& context, const GradientPass& pass) = 0;

  /// P <- P norm_ratio(), in place, for a caller's look at it; later passes have no grafting norms.
  virtual void graft_directions(const PassContext& context, const UpdatePass& pass,
                                void* direction) = 0;

  /// pass.scaling.sums <- the sums of every block that is present; those with W by
  /// ScalingRule::trust alone.
  virtual void measure_directions(const PassContext& context, const UpdatePass& pass,
                                  DirectionSums* sums) = 0;

  /// Scaling of preconditioned blocks to the grafting's norm, of all blocks by their sums, decay,
  /// averaging, learning rate; the result goes into the segment, or to the values, which then are
  /// projected and join their average.
  virtual void update(const PassContext& context, const UpdatePass& pass) = 0;

  /// filter(), then update(), in one pass that does not store P: for elementwise preconditioners
  /// without grafting, norms and sums.
  virtual void filter_and_update(const PassContext& context, const GradientPass& gradients,
                                 const UpdatePass& pass) = 0;

  /// Adds or assigns received segments to the values. `tiles[].flat` counts elements of the
  /// block's own part of the segment.
  virtual void apply(const TileTable& elements, const Mode* modes, const void* segments,
                     const std::int32_t* proceed) = 0;

  /// segments <- values, in the wire type: the inverse of apply() for new values. Exact where both
  /// have one type.
  virtual void pack_values(const TileTable& elements, void* segments) = 0;

  /// segment <- W + extrapolation (Z - W).
  virtual void evaluate(const TileTable& elements, const EvaluationPass& pass) = 0;
};

}  // namespace shampoo::kernels
