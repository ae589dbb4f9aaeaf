// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/solvers/solver.h"

namespace shampoo::kernels {

/// How the blocks of one stack are orthogonalised: from X = F / max(|F|_F, floor), either by the
/// steps
///
///     R = X X^T ; X <- (a I + b R + c R^2) X
///     R = X^T X ; X <- X (a I + b R + c R^2)                 for a tall X
///
/// or, where there are none, by singular values. The result is multiplied by `scale`.
struct PolarPlan {
  std::vector<std::array<double, 3>> steps;  ///< a, b, c
  /// The steps may also be taken on R alone, Q = a I + b R + c R^2, R <- Q^2 R, with the product of
  /// all Q applied to X at the end: fewer operations where X is long.
  bool on_gram = false;
  double floor = 0;  ///< > 0
  double scale = 1;
  bool nuclear = false;  ///< by singular values: also multiplied by the sum of those of F
  /// Blocks that are not selected keep their direction; of all plans of a call or none.
  bool keeps_others = false;
};

/// A function of the shape alone.
PolarPlan plan_polar(const Orthogonalizer& solver, std::int64_t rows, std::int64_t columns,
                     double scale);

/// True if plans of long matrices are `on_gram`.
bool has_plans_on_gram(const Orthogonalizer& solver);

/// Floating-point operations for one matrix, in the time of those of products.
double polar_operations(const PolarPlan& plan, std::int64_t rows, std::int64_t columns);

}  // namespace shampoo::kernels
