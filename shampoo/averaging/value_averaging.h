// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/staged_array.h"
#include "shampoo/recipe.h"
#include "shampoo/update/group_state.h"
#include "shampoo/update/step_context.h"
#include "shampoo/validation/checks.h"

/// Averages of the values that steps leave. A kind is its options in recipe.h and one file pair
/// with the overloads that value_averaging.cpp visits: check, new_value_weight, and
/// replaces_values.
namespace shampoo {

/// A of the blocks of one virtual group that this rank owns.
class GroupValueAveraging {
 public:
  /// The weights go into `columns`, which must outlive this object, as `recipe` must.
  GroupValueAveraging(const Recipe& recipe, const GroupState& state, kernels::StagedArrays& columns,
                      std::size_t blocks);

  /// For the step that is prepared, counted from 1.
  void prepare(std::size_t block, std::int64_t step);
  /// Joins the pass that turns P into what is sent.
  void apply(ChunkContext& chunk) const;
  /// [backend] A
  void* average() const { return average_; }

 private:
  const Recipe& recipe_;
  void* average_;
  kernels::StagedArray<double> weights_;  ///< per block
};

/// Throws std::invalid_argument for options out of range.
void check_value_averaging(const Recipe& recipe, const Checks& checks);
bool averages_values(const Recipe& recipe);
/// True if averages take the place of values.
bool replaces_values(const Recipe& recipe);
/// "value_average": A.
std::vector<Slot> value_averaging_slots(const Recipe& recipe);
/// Null for NoValueAverage.
std::unique_ptr<GroupValueAveraging> make_value_averaging(const Recipe& recipe,
                                                          const GroupState& state,
                                                          kernels::StagedArrays& columns,
                                                          std::size_t blocks);

}  // namespace shampoo
