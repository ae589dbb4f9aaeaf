// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/refresh_schedule.h"

#include <algorithm>

#include "shampoo/preconditioners/preconditioner.h"

namespace shampoo {

namespace {

/// The first step that may refresh a block: the interval that ends at refresh.first is enough to
/// refresh all of them.
std::int64_t start_of(const Refresh& refresh) {
  if (!refresh.staggered) return *refresh.first;
  return std::max<std::int64_t>(1, *refresh.first - refresh.every + 1);
}

/// Steps from there to the first refresh of a block: the least number >= 0 that makes start +
/// number
/// + phase a multiple of the interval.
std::int64_t wait_of(const Refresh& refresh, std::int64_t phase) {
  if (!refresh.staggered) return 0;
  const std::int64_t left = refresh.every - phase - start_of(refresh) % refresh.every;
  return left < 0 ? left + refresh.every : left % refresh.every;
}

}  // namespace

std::int64_t refresh_interval(const Recipe& recipe) {
  const Refresh& refresh = recipe.refresh;
  return refresh.staggered && refresh.first && has_refresh(recipe) ? refresh.every : 1;
}

bool is_due(const Recipe& recipe, std::int64_t step, std::int64_t phase) {
  const Refresh& refresh = recipe.refresh;
  if (!has_refresh(recipe) || !refresh.first || step < start_of(refresh)) return false;
  if (!refresh.staggered && step == *refresh.first) return true;
  return step % refresh.every == (refresh.every - phase) % refresh.every;
}

bool is_preconditioned(const Recipe& recipe, std::int64_t step, std::int64_t phase) {
  if (acts_before_refresh(recipe)) return true;
  const Refresh& refresh = recipe.refresh;
  return refresh.first && step >= *refresh.first &&
         step - start_of(refresh) >= wait_of(refresh, phase);
}

}  // namespace shampoo
