// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/refresh_schedule.h"

#include <algorithm>

#include "shampoo/preconditioners/preconditioner.h"

namespace shampoo {

bool is_preconditioned(const Recipe& recipe, std::int64_t step) {
  return acts_before_refresh(recipe) || (recipe.refresh.first && step >= *recipe.refresh.first);
}

bool is_due(const Recipe& recipe, std::int64_t step, std::int64_t phase) {
  const Refresh& refresh = recipe.refresh;
  if (!has_refresh(recipe) || !refresh.first || step < *refresh.first) return false;
  return step == *refresh.first || (step + phase) % refresh.every == 0;
}

std::vector<std::int64_t> stagger(const Recipe& recipe, std::span<const grouping::Work> works) {
  std::vector<std::int64_t> phases(works.size(), 0);
  if (!recipe.refresh.staggered) return phases;
  const auto steps = std::min(recipe.refresh.every, static_cast<std::int64_t>(works.size()));
  std::vector<std::int64_t> load(static_cast<std::size_t>(steps), 0);
  for (std::size_t b = 0; b < works.size(); ++b) {
    const auto idlest = std::min_element(load.begin(), load.end());
    *idlest += works[b].cost;
    phases[b] = idlest - load.begin();
  }
  return phases;
}

}  // namespace shampoo
