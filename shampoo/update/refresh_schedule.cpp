// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/refresh_schedule.h"

#include <algorithm>

#include "shampoo/preconditioners/preconditioner.h"

namespace shampoo {

namespace {

bool has_begun(const Recipe& recipe, std::int64_t step) {
  return recipe.refresh.first && step >= *recipe.refresh.first;
}

}  // namespace

std::int64_t refresh_interval(const Recipe& recipe) {
  const Refresh& refresh = recipe.refresh;
  return refresh.staggered && refresh.first && has_refresh(recipe) ? refresh.every : 1;
}

bool is_due(const Recipe& recipe, std::int64_t step, std::int64_t phase) {
  const Refresh& refresh = recipe.refresh;
  if (!has_refresh(recipe) || !refresh.first) return false;
  const std::int64_t first = *refresh.first, every = refresh.every;
  const std::int64_t turn = (every - phase) % every;  // step + phase is then a multiple
  if (step != first) {
    const std::int64_t start =
        refresh.staggered ? std::max<std::int64_t>(1, first - every + 1) : first;
    return step >= start && step % every == turn;
  }
  // Now, at the latest: the interval that ends here may have begun before step 1.
  const bool had_turn = first >= every || (turn > 0 && turn < first);
  return !refresh.staggered || step % every == turn || !had_turn;
}

bool is_refreshed_by(const Recipe& recipe, std::int64_t step) {
  return has_refresh(recipe) && has_begun(recipe, step);
}

bool is_preconditioned(const Recipe& recipe, std::int64_t step) {
  return acts_before_refresh(recipe) || has_begun(recipe, step);
}

}  // namespace shampoo
