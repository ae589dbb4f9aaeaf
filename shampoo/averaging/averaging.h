// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shampoo/recipe.h"
#include "shampoo/update/group_state.h"
#include "shampoo/update/step_context.h"
#include "shampoo/validation/checks.h"

/// The seam between the step and the averaging kinds. A kind is its options in recipe.h and one
/// file pair with the overloads that averaging.cpp visits: check, rates, weight, slots, make, and
/// for kinds that average an iterate, evaluation_extrapolation.
namespace shampoo {

/// The step of a parameter that an averaging takes part in.
struct AveragingStep {
  const Rates& rates;
  std::int64_t step;      ///< counted from 1
  double weight = 0;      ///< averaging_weight() of this step
  double weight_sum = 0;  ///< of all steps that the parameter has taken, with this one
};

/// One averaging kind at work on the blocks of one virtual group that this rank owns.
class GroupAveraging {
 public:
  virtual ~GroupAveraging() = default;
  /// Fills in the coefficients of one block that the kind reads; the others are set.
  virtual void set_coefficients(const AveragingStep& step,
                                kernels::Coefficients& coefficients) const = 0;
  /// Joins the pass that turns P of a chunk into what is sent.
  virtual void apply(ChunkContext& chunk) = 0;
  /// [backend] Z, which starts from the parameters' values; null for kinds without.
  virtual void* iterate() const { return nullptr; }
};

/// Throws std::invalid_argument for options out of range.
void check_averaging(const Recipe& recipe, const Checks& checks);

std::span<const RateUse> averaging_rates(const Recipe& recipe);
/// Weight of a step with these rates in an average over all steps; 0 for kinds without one.
double averaging_weight(const Recipe& recipe, const Rates& rates);
std::vector<Slot> averaging_slots(const Recipe& recipe);
bool averages_iterate(const Recipe& recipe);
/// True if evaluation values differ from those that are trained: iterates or values are averaged.
bool has_evaluation_values(const Recipe& recipe);
/// e, with which the evaluation values are X = W + e (Z - W); 1 for an average Z of values, 0
/// without either.
double evaluation_extrapolation(const Recipe& recipe, const Rates& rates);
/// Null for NoAveraging.
std::unique_ptr<GroupAveraging> make_averaging(const Recipe& recipe, const GroupState& state);

}  // namespace shampoo
