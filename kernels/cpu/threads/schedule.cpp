// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/threads/schedule.h"

#include <algorithm>

namespace shampoo::kernels {

namespace {

/// A task costs at least so many times what its companion costs. That is in operations, and a
/// companion mostly waits for memory.
constexpr double least_ratio = 64;
/// For each thread: fewer would leave threads without any.
constexpr std::int64_t least_leading_tasks = 4;

}  // namespace

void Schedule::add(std::size_t group, std::int64_t members, double cost) {
  if (members == 0) return;
  entries_.push_back({group, members, 0, cost});
  tasks_ += members;
  cost_ += cost * static_cast<double>(members);
}

void Schedule::sort(int threads) {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.group < b.group;
  });
  std::int64_t task = 0;
  for (Entry& entry : entries_) {
    entry.first_task = task;
    task += entry.members;
  }
  // The further behind, the less a task costs and the more its companion.
  std::int64_t begin = 0, end = tasks_ / 2;
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (entry_of(middle).cost >= least_ratio * entry_of(tasks_ - 1 - middle).cost)
      begin = middle + 1;
    else
      end = middle;
  }
  companions_ = tasks_ - begin >= least_leading_tasks * threads ? begin : 0;
}

const Schedule::Entry& Schedule::entry_of(std::int64_t task) const {
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), task,
                       [](std::int64_t t, const Entry& entry) { return t < entry.first_task; });
  return *(after - 1);
}

}  // namespace shampoo::kernels
