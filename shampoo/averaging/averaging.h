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
/// file pair with the overloads that averaging.cpp visits: rates, slots, make.
namespace shampoo {

/// One averaging kind at work on the blocks of one virtual group that this rank owns.
class GroupAveraging {
 public:
  virtual ~GroupAveraging() = default;
  /// Fills in the coefficients of one block that the kind reads, for the `step`-th step of its
  /// parameter, counted from 1.
  virtual void set_coefficients(const Rates& rates, std::int64_t step,
                                kernels::Coefficients& coefficients) const = 0;
  /// Joins the pass that turns P into what is sent.
  virtual void apply(StepContext& step) = 0;
};

std::span<const RateUse> averaging_rates(const Recipe& recipe);
std::vector<Slot> averaging_slots(const Recipe& recipe);
/// Null for NoAveraging.
std::unique_ptr<GroupAveraging> make_averaging(const Recipe& recipe, const GroupState& state);

}  // namespace shampoo
